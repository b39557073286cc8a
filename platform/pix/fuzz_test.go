package pix

import "testing"

// A text that is read as an EndToEndId is written the same, and its parts, which the ledger
// keeps, make it again.
func FuzzEndToEndID(f *testing.F) {
	for _, text := range []string{"", "E", "E1000000120260101000000000000000", "E10000001209912312359zzzzzzzzzzz",
		"E10000001202602300000ABCDEFGHIJK", "e1000000120260101000000000000000", "E1000000a202601010000ABCDEFGHIJK"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// An RtrId differs in its letter only. Neither is read as the other.
		if len(text) > 0 && text[0] == 'E' {
			id, err := ParseEndToEndID(text)

			back, backErr := ParseReturnID("D" + text[1:])
			if (err == nil) != (backErr == nil) || err == nil &&
				(string(back[1:]) != text[1:] || back.PSP() != id.Payer()) {
				t.Fatalf("%q is read as %q (%v), and as a return's id as %q (%v)", text, id, err, back, backErr)
			}

			if _, err := ParseReturnID(text); err == nil {
				t.Fatalf("%q is read as a return's id", text)
			}
		}

		id, err := ParseEndToEndID(text)
		if err != nil {
			if id != (EndToEndID{}) && len(err.Error()) == 0 {
				t.Fatal("refused without a reason")
			}

			return
		}

		if id.String() != text {
			t.Fatalf("%q is read as %q", text, id)
		}
		var payer [8]byte
		copy(payer[:], id.Payer())

		if again, err := JoinEndToEndID(payer, id.Minute(), id.Suffix()); err != nil || again != id {
			t.Fatalf("%q comes back from its parts as %q: %v", text, again, err)
		}
	})
}
