package main

// line is the requests of one partition that are not answered yet, in their order. It
// says how far the partition may be committed: up to the first of them.
type line struct {
	first, last *answer
	next        int64 // the offset after the last request taken, -1 before the first
	committed   int64 // what the group knows, as far as this process has told it
}

func newLine() *line { return &line{next: -1, committed: -1} }

// pass notes that the request at an offset was taken; with an answer to come, it is
// unanswered until done.
func (l *line) pass(offset int64, a *answer) {
	l.next = offset + 1
	if a == nil {
		return
	}
	a.line, a.offset, a.before = l, offset, l.last
	if l.last == nil {
		l.first = a
	} else {
		l.last.after = a
	}
	l.last = a
}

// done takes an answer out of its line.
func (l *line) done(a *answer) {
	if a.before == nil {
		l.first = a.after
	} else {
		a.before.after = a.after
	}
	if a.after == nil {
		l.last = a.before
	} else {
		a.after.before = a.before
	}
}

// committable is the offset below which every request is finished, -1 for nothing yet.
func (l *line) committable() int64 {
	if l.first != nil {
		return l.first.offset
	}
	return l.next
}
