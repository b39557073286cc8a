package bank

// partition is one partition of the requests. It keeps the requests that were fetched and
// not answered yet, in their order, and so knows how far it may be committed.
type partition struct {
	first, last *response
	next        int64 // the offset after the last fetched request, -1 before the first
	committed   int64 // the last commit of this process, -1 before it
}

func newPartition() *partition { return &partition{next: -1, committed: -1} }

// add notes the request at an offset. Its response is nil if the bank stays silent.
func (p *partition) add(offset int64, r *response) {
	p.next = offset + 1
	if r == nil {
		return
	}
	r.partition, r.offset, r.before = p, offset, p.last
	if p.last == nil {
		p.first = r
	} else {
		p.last.after = r
	}
	p.last = r
}

// remove takes out a response that is finished.
func (p *partition) remove(r *response) {
	if r.before == nil {
		p.first = r.after
	} else {
		r.before.after = r.after
	}
	if r.after == nil {
		p.last = r.before
	} else {
		r.after.before = r.before
	}
}

// committable is the offset below which every request is finished, -1 before the first.
func (p *partition) committable() int64 {
	if p.first != nil {
		return p.first.offset
	}
	return p.next
}
