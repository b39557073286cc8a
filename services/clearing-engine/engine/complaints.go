package engine

import (
	"strings"
	"sync"
	"time"

	"github.com/liquida/liquida/platform/pix"
)

// complaints count what banks do wrong until a line of the log may say it: one line a second.
// Otherwise a bank could flood the log.
type complaints struct {
	mu       sync.Mutex
	loggedAt time.Time
	byBank   map[string]int // since loggedAt
}

// complaintsBanksMax bounds the banks in one line. Without seals a bank may give any name.
const complaintsBanksMax = 20

// add counts a complaint. It returns the counts by bank if it is time to log them, else nil.
func (c *complaints) add(bank pix.ISPB) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.byBank == nil {
		c.byBank = map[string]int{}
	}

	name := string(bank[:min(len(bank), 8)])
	if _, known := c.byBank[name]; !known && len(c.byBank) >= complaintsBanksMax {
		name = "others"
	}

	c.byBank[strings.Clone(name)]++ // the name lies in a record, which it would keep alive
	if time.Since(c.loggedAt) < time.Second {
		return nil
	}
	counts := c.byBank
	c.loggedAt, c.byBank = time.Now(), nil

	return counts
}
