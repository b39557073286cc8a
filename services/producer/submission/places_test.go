package submission

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Where engines own all partitions, an order goes where any client of Kafka puts it. Where they do not, it
// goes to one that they own.
func TestAnOrderGoesToAPartitionThatAnEngineOwns(t *testing.T) {
	p := &places{known: make(chan struct{})}

	placed := func(key string, partitions int) int {
		return p.ForTopic("topic").Partition(&kgo.Record{Key: []byte(key)}, partitions)
	}
	for i := range 100 {
		key := fmt.Sprint(i)

		kafkas := kgo.StickyKeyPartitioner(nil).ForTopic("topic").Partition(&kgo.Record{Key: []byte(key)}, 4)
		for _, owned := range [][]int32{nil, {}, {3, 1, 2, 0}} {
			if p.Own(owned); placed(key, 4) != kafkas {
				t.Fatalf("with %v owned, %s goes to %d and not to %d", owned, key, placed(key, 4), kafkas)
			}
		}

		if p.Own([]int32{0, 1, 2, 3}); placed(key, 8) != kafkas {
			t.Fatalf("%s goes to %d while four new partitions have no owner", key, placed(key, 8))
		}

		if p.Own([]int32{6, 1}); placed(key, 8) != 1 && placed(key, 8) != 6 || placed(key, 4) != 1 {
			t.Fatalf("%s goes to %d of 8, and to %d of 4", key, placed(key, 8), placed(key, 4))
		}
	}
}
