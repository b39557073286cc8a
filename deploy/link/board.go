package link

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Board holds links by name and changes them over HTTP, for those who hold its token:
//
//	PUT /links/{name}  an Order: opens the link, or changes it
//	GET /links         the names of the links that are cut
type Board struct {
	Token string

	mu    sync.Mutex
	links map[string]*Link
	cut   map[string]bool
}

// Order says where a link listens, what it leads to, and whether it is cut.
type Order struct {
	Listen string `json:"listen"`        // IP:port of loopback; that of an open link stays
	Server string `json:"server"`        // host:port
	Kafka  bool   `json:"kafka"`         // the server is Kafka's only broker
	Cut    *bool  `json:"cut,omitempty"` // nil: as it was; a new link is whole
}

const (
	linksMax = 1000
	bodyMax  = 4 << 10
)

// Handler serves the board.
func (b *Board) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /links/{name}", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax)).Decode(&order)
		if err == nil {
			err = b.set(r.PathValue("name"), order)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("GET /links", func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		names := []string{}
		for name, cut := range b.cut {
			if cut {
				names = append(names, name)
			}
		}
		_ = json.NewEncoder(w).Encode(names) // an error means that the caller has gone
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+b.Token)) != 1 {
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (b *Board) set(name string, order Order) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.links[name]
	if l == nil {
		host, _, err := net.SplitHostPort(order.Listen)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("listen is %q: it must be an IP of loopback and a port", order.Listen)
		}
		if _, _, err := net.SplitHostPort(order.Server); err != nil {
			return fmt.Errorf("server is %q: it must be host:port", order.Server)
		}
		if len(b.links) >= linksMax {
			return fmt.Errorf("there are %d links: there must be at most %d", len(b.links), linksMax)
		}
		if l, err = listen(order.Listen, order.Server, order.Kafka); err != nil {
			return err
		}
		if b.links == nil {
			b.links, b.cut = map[string]*Link{}, map[string]bool{}
		}
		b.links[name] = l
	}
	if order.Cut == nil {
		return nil
	}
	state := Whole
	if *order.Cut {
		state = Cut
	}
	l.Set(state, 0)
	b.cut[name] = *order.Cut
	return nil
}

// Close ends all links.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.links {
		l.Close()
	}
}
