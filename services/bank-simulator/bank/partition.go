package bank

import "container/list"

// partition is one partition of the requests. It keeps the requests that were fetched and
// not answered yet, in their order, and so knows how far it may be committed.
type partition struct {
	unanswered list.List // of the requests' offsets, ascending
	next       int64     // the offset after the last fetched request, -1 before the first
	committed  int64     // the last commit of this process, -1 before it
}

func newPartition() *partition { return &partition{next: -1, committed: -1} }

// add notes the request at an offset. Its response is nil if the bank stays silent.
func (p *partition) add(offset int64, r *response) {
	p.next = offset + 1
	if r != nil {
		r.partition, r.place = p, p.unanswered.PushBack(offset)
	}
}

// remove takes out a response that is finished.
func (p *partition) remove(r *response) { p.unanswered.Remove(r.place) }

// committable is the offset below which every request is finished, -1 before the first.
func (p *partition) committable() int64 {
	if first := p.unanswered.Front(); first != nil {
		return first.Value.(int64)
	}

	return p.next
}
