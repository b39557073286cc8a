package bench

import (
	"math/rand/v2"
	"testing"
	"time"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"
	"pgregory.net/rapid"
)

// However often it is asked: each payment is posted once and whole, not before its bank answers,
// and in full requests until the rest is wanted.
func TestAnswersComeOnceAndInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := func(from, to int, label string) time.Duration {
			return time.Duration(rapid.IntRange(from, to).Draw(t, label)) * time.Millisecond
		}
		d := delay{}
		if rapid.Bool().Draw(t, "slow") {
			d.min = ms(1, 1000, "min")
			d.mean = d.min + ms(0, 500, "more on average")
			d.max = d.mean + ms(0, 1000, "more at most")
		}
		chains := rapid.IntRange(1, 20).Draw(t, "chains of a request")
		a := answers{delay: d, random: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))}
		now, held, posted := time.Unix(1_000_000, 0), []time.Time{}, map[uint64]bool{}
		take := func(rest bool) bool {
			posts := a.take(now, legs*chains, rest)
			if len(posts)%legs != 0 || len(posts) > legs*chains || len(posts) < legs*chains && len(posts) > 0 && !rest {
				t.Fatalf("a request of %d posts, at most %d chains", len(posts), chains)
			}
			for i, post := range posts {
				number := post.UserData64
				if post.UserData32 != uint32(i%legs) {
					t.Fatalf("payment %d has its leg %d at %d", number, post.UserData32, i)
				}
				if i%legs > 0 {
					continue
				}
				if waited := now.Sub(held[number]); posted[number] || waited < d.min {
					t.Fatalf("payment %d is posted (before: %t) %s after its hold, its bank takes at least %s", number, posted[number], waited, d.min)
				}
				posted[number] = true
			}
			return posts != nil
		}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			var posts []tb.Transfer
			for range rapid.IntRange(1, 20).Draw(t, "holds") {
				for leg := range legs {
					posts = append(posts, tb.Transfer{UserData64: uint64(len(held)), UserData32: uint32(leg)})
				}
				held = append(held, now)
			}
			a.add(posts, now)
			now = now.Add(ms(0, 300, "pause"))
			for take(false) {
				continue
			}
		}
		last := now
		for ; a.open(); now = now.Add(answerStep) {
			for take(true) {
				continue
			}
		}
		if len(posted) != len(held) || now.Sub(last) > d.max+3*answerStep {
			t.Fatalf("%d of %d payments are posted, the last %s after the last hold; banks take at most %s", len(posted), len(held), now.Sub(last), d.max)
		}
	})
}
