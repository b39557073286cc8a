package feed

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
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

// reaches reports whether nothing is left before another position.
func (p position) reaches(other position) bool {
	for number := range min(len(p), len(other)) { // equally long: the number of partitions is fixed
		if p[number] < other[number] {
			return false
		}
	}
	return true
}

// cursorVersion is the first byte of a cursor.
const cursorVersion = 1

// cursor is the position as clients keep it.
func (p position) cursor() string {
	text := []byte{cursorVersion}
	for _, offset := range p {
		text = binary.AppendUvarint(text, uint64(offset))
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// positionOf returns the position of a cursor. Its topic must have this number of partitions.
func positionOf(cursor string, partitions int) (position, error) {
	wrong := errors.New("it is not a cursor of this stream: use the id of an event, or \"start\" or \"end\"")
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) < 1 || text[0] != cursorVersion {
		return nil, wrong
	}
	text = text[1:]
	var p position
	for len(text) > 0 && len(p) < partitions {
		offset, length := binary.Uvarint(text)
		if length <= 0 || offset > math.MaxInt64 {
			return nil, wrong
		}
		p, text = append(p, int64(offset)), text[length:]
	}
	if len(text) > 0 || len(p) != partitions {
		return nil, wrong
	}
	return p, nil
}
