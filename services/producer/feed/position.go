package feed

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/platform/stream"
)

// position is a place in pix.settlements: the next offset of each partition.
type position []int64

// endOf asks where the topic ends.
func endOf(ctx context.Context, admin *kadm.Client) (position, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	listed, err := stream.Ends(ctx, admin, stream.Settlements)
	if err != nil {
		return nil, err
	}

	at := make(position, len(listed[stream.Settlements]))
	if len(at) == 0 {
		return nil, errors.New("topic " + stream.Settlements + " has no partitions")
	}

	for number, partition := range listed[stream.Settlements] {
		if number < 0 || int(number) >= len(at) {
			return nil, errors.New("the partitions of " + stream.Settlements + " are not numbered one by one")
		}
		at[number] = partition.Offset
	}

	return at, nil
}

func (p position) offsets() map[string]map[int32]kgo.Offset {
	offsets := make(map[int32]kgo.Offset, len(p))
	for number, offset := range p {
		offsets[int32(number)] = kgo.NewOffset().At(offset)
	}

	return map[string]map[int32]kgo.Offset{stream.Settlements: offsets}
}

// withPartitions returns the position in at least so many partitions: those that were added later begin
// at their beginning.
func (p position) withPartitions(partitions int) position {
	return append(slices.Clone(p), make(position, max(0, partitions-len(p)))...)
}

// reaches reports whether nothing is left before another position.
func (p position) reaches(other position) bool {
	for number, offset := range other {
		if number >= len(p) && offset > 0 || number < len(p) && p[number] < offset {
			return false
		}
	}

	return true
}

// cursorVersion is the first byte of a cursor.
const cursorVersion = 1

// cursor is the position as clients keep it.
func (p position) cursor() string {
	var room [256]byte // there is a cursor in each event of each stream
	text := append(room[:0], cursorVersion)

	for _, offset := range p {
		text = binary.AppendUvarint(text, uint64(offset))
	}

	return base64.RawURLEncoding.EncodeToString(text)
}

// positionOf returns the position of a cursor in a topic with this number of partitions. It may be older than some of
// them.
func positionOf(cursor string, partitions int) (position, error) {
	wrong := errors.New("it is not a position in this stream: use the id of an event, or \"start\" or \"end\"")

	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) < 1 || text[0] != cursorVersion {
		return nil, wrong
	}
	text = text[1:]
	var p position

	for len(text) > 0 {
		offset, length := binary.Uvarint(text)
		if length <= 0 || offset > math.MaxInt64 {
			return nil, wrong
		}
		p, text = append(p, int64(offset)), text[length:]
	}

	if len(p) == 0 {
		return nil, wrong
	}

	if len(p) > partitions {
		return nil, fmt.Errorf("it is a position in %d partitions, and %s has %d: it is of another system, or of a topic that was made anew; begin with \"start\" or \"end\"",
			len(p), stream.Settlements, partitions)
	}

	return p.withPartitions(partitions), nil
}
