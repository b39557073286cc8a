package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/link"
	"github.com/liquida/liquida/platform/keys"
)

// With Config.Cuts the engines and the producer reach broker and ledger through the process Links, which
// can cut those connections. Broker and ledger themselves are as ever.

// What a process can be cut from.
const (
	FromBroker = "broker"
	FromLedger = "ledger"
)

// linksMax is how long Links may take to answer.
const linksMax = 5 * time.Second

// linkOf is the role of the address where a process reaches a server.
func linkOf(process, server string) string { return process + " to " + server }

// cuttable reports whether a process has links.
func (s *Stack) cuttable(process string) bool {
	return s.config.Cuts && (strings.HasPrefix(process, "engine-") || process == Producer || process == SecondProducer)
}

func (s *Stack) linksTokenFile() string { return filepath.Join(s.config.Dir, "links-token") }

// setLinks cuts or mends the links from a process to servers, or with nil only opens them.
func (s *Stack) setLinks(ctx context.Context, process string, servers []string, cut *bool) error {
	for _, server := range servers {
		order, err := json.Marshal(link.Order{
			Listen: s.addresses.of(linkOf(process, server)), Server: s.addresses.of(server),
			Kafka: server == Broker, Cut: cut,
		})
		if err != nil {
			return err
		}
		if _, err := s.askLinks(ctx, http.MethodPut, "/links/"+process+"-to-"+server, order); err != nil {
			return fmt.Errorf("the link from %s to %s: %w", process, server, err)
		}
	}
	return nil
}

// openLinks opens the links of a process, unless they are open.
func (s *Stack) openLinks(ctx context.Context, process string) error {
	return s.setLinks(ctx, process, append(s.Replicas(), Broker), nil)
}

func (s *Stack) askLinks(ctx context.Context, method, path string, body []byte) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, linksMax)
	defer cancel()
	token, err := keys.ReadPassword(s.linksTokenFile())
	if err != nil {
		return nil, err
	}
	return askWithToken(ctx, method, "http://"+s.addresses.of(Links)+path, token, body)
}

// cuts returns what each process is cut from. Without an answer of Links it returns nothing.
func (s *Stack) cuts(ctx context.Context) map[string][]string {
	if !s.config.Cuts {
		return nil
	}
	answer, err := s.askLinks(ctx, http.MethodGet, "/links", nil)
	var names []string
	if err != nil || json.Unmarshal(answer, &names) != nil {
		return nil // its own status says why
	}
	all := map[string][]string{}
	for _, name := range names {
		process, server, _ := strings.Cut(name, "-to-")
		from := FromLedger
		if server == Broker {
			from = FromBroker
		}
		if !slices.Contains(all[process], from) {
			all[process] = append(all[process], from)
		}
	}
	for _, from := range all {
		slices.Sort(from)
	}
	return all
}

// Cut closes the connections from a process to FromBroker or FromLedger, and refuses new ones.
func (a *Attached) Cut(ctx context.Context, name, from string) error {
	return a.setLinks(ctx, name, from, true)
}

// Mend lets connections pass again.
func (a *Attached) Mend(ctx context.Context, name, from string) error {
	return a.setLinks(ctx, name, from, false)
}

func (a *Attached) setLinks(ctx context.Context, name, from string, cut bool) error {
	s, err := reopen(a.dir)
	if err != nil {
		return err
	}
	defer s.launcher.close()
	if !s.config.Cuts {
		return errors.New("the stack has no links: start it with make up CUTS=on")
	}
	if !s.has(name) || !s.cuttable(name) {
		return fmt.Errorf("%s has no links: only engines and producers have", name)
	}
	switch from {
	case FromBroker:
		return s.setLinks(ctx, name, []string{Broker}, &cut)
	case FromLedger:
		return s.setLinks(ctx, name, s.Replicas(), &cut)
	}
	return fmt.Errorf("the other end is %q: it must be %s or %s", from, FromBroker, FromLedger)
}
