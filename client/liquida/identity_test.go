package main

import (
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/client"
	"github.com/liquida/liquida/platform/pix"
)

// The client depends on nothing of this repository, so it has its own words for accounts and ids. They
// are those of the payment system.
func TestTheClientsAccountsAndIDsAreThePaymentSystems(t *testing.T) {
	for _, text := range []string{
		"10000001/0001/1", "ABCDEFGH/9999/12345678901234567890", "1000000a/0001/1", "1000001/0001/1",
		"100000011/0001/1", "10000001/001/1", "10000001/000a/1",
		"10000001/0001/01", "10000001/0001/", "10000001/0001/123456789012345678901", "10000001/0001/1\n",
		"１0000001/0001/1", "//", " 10000001/0001/1",
	} {
		parts := strings.Split(text, "/")
		want := pix.Account{ISPB: pix.ISPB(parts[0]), Branch: parts[1], Number: parts[2]}.Validate()

		account, err := client.ParseAccount(text)
		if (err == nil) != (want == nil) || err == nil && account.String() != text {
			t.Errorf("%q is %v (%v), of the payment system: %v", text, account, err, want)
		}
	}
	last := ""

	for range 1000 {
		id, err := client.NewEndToEndID(client.Account{ISPB: "10000001", Branch: "0001", Number: "1"})
		if err != nil {
			t.Fatal(err)
		}

		parsed, err := pix.ParseEndToEndID(id)
		if err != nil || parsed.Payer() != "10000001" || time.Since(parsed.Time()).Abs() > 2*time.Minute {
			t.Fatalf("%s: %v %v", id, parsed, err)
		}

		if ordered := id[:26]; ordered < last {
			t.Fatalf("%s comes before %s", ordered, last)
		} else {
			last = ordered
		}
	}
}
