package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/liquida/liquida/platform/pix"
)

// banks returns the participants: the population, and the banks of guests.
func (c *Clients) banks() (banks []pix.ISPB) {
	for i := range c.Population.Banks {
		banks = append(banks, c.Population.Bank(i))
	}
	for _, guest := range c.Guests {
		if !slices.Contains(banks, guest.ISPB) {
			banks = append(banks, guest.ISPB)
		}
	}
	return banks
}

func (c *Clients) isGuest(bank pix.ISPB) bool {
	return slices.ContainsFunc(c.Guests, func(a pix.Account) bool { return a.ISPB == bank })
}

// readOwn asks for all that a guest's bank may see of itself, and for what is another's. It must see its own and no more.
func (c *Clients) readOwn(ctx context.Context, bank pix.ISPB, other int) {
	var page struct {
		Accounts []bankAccount
		Acts     []struct{ Participant string }
		ISPB     string
	}
	ask := func(path string, want int) bool {
		status, text, err := c.ask(ctx, call{holder: string(bank), method: http.MethodGet, path: path})
		if unavailable(status, err) {
			return false
		}
		page.Accounts, page.Acts, page.ISPB = nil, nil, ""
		if err := json.Unmarshal(text, &page); status != want || err != nil {
			c.refuse("%s as %s: %d, not %d: %.300s (%v)", path, bank, status, want, text, err)
			return false
		}
		return true
	}
	of := "/v1/participants/" + string(bank)
	if ask(of+"/accounts", http.StatusOK) {
		var want []bankAccount
		for _, a := range c.Guests {
			want = append(want, bankAccount{string(a.ISPB), a.Branch, a.Number})
		}
		if !slices.Equal(page.Accounts, want) {
			c.refuse("the accounts of %s are %.300v, not %v", bank, fmt.Sprint(page.Accounts), want)
		}
	}
	if ask(of+"/acts?limit=1000", http.StatusOK) && slices.ContainsFunc(page.Acts, func(a struct{ Participant string }) bool { return a.Participant != string(bank) }) {
		c.refuse("among the acts of %s are those of others: %.300v", bank, fmt.Sprint(page.Acts))
	}
	if ask(of, http.StatusOK) && page.ISPB != string(bank) {
		c.refuse("%s is told of %s", bank, page.ISPB)
	}
	if c.Keys[string(bank)] == "" { // anybody may see everything
		return
	}
	stranger := c.accounts[other]
	for _, path := range []string{"/v1/participants", "/v1/acts", "/v1/participants/" + string(stranger.ISPB) + "/accounts", "/v1/accounts/" + accountName(stranger), "/v1/accounts/" + accountName(stranger) + "/statement"} {
		ask(path, http.StatusForbidden)
	}
}
