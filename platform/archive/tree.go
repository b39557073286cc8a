package archive

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the Merkle tree of a segment's rows (RFC 6962): leaf by leaf.
type tree struct {
	rows   int64
	hashes []tlog.Hash
}

func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index >= int64(len(t.hashes)) {
			return nil, fmt.Errorf("the tree has %d hashes and not the one at %d", len(t.hashes), index)
		}
		found[i] = t.hashes[index]
	}

	return found, nil
}

func (t *tree) add(row []byte) error {
	stored, err := tlog.StoredHashes(t.rows, row, t)
	t.hashes = append(t.hashes, stored...)
	t.rows++

	return err
}

func (t *tree) root() (tlog.Hash, error) { return tlog.TreeHash(t.rows, t) }

// treeOf returns the tree of all rows of a segment.
func treeOf(s *Segment) *tree {
	t := &tree{hashes: make([]tlog.Hash, 0, 2*(len(s.PaymentRows)+len(s.RecordRows)+len(s.AccountRows)))}
	s.each(func(row []byte) { _ = t.add(row) }) // it reads its own hashes only
	return t
}

// each calls with the canonical text of each row, in the order of the leaves.
func (s *Segment) each(call func(row []byte)) {
	for i := range s.PaymentRows {
		call(canonical(&s.PaymentRows[i]))
	}

	for i := range s.RecordRows {
		call(canonical(&s.RecordRows[i]))
	}

	for i := range s.AccountRows {
		call(canonical(&s.AccountRows[i]))
	}
}
