package room

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/liquida/liquida/loadtest/room/page"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/platform/web"
)

// TokenOf returns the token in a file. If there is none, it makes one that only its owner can read.
func TokenOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(rand.Text() + "\n")
		if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}

	if err != nil {
		return "", fmt.Errorf("ROOM_TOKEN_FILE: %w", err)
	}

	token := strings.TrimSpace(string(text))
	if len(token) < tokenMin || len(token) > tokenMax || strings.ContainsAny(token, " \n#&") {
		return "", fmt.Errorf("ROOM_TOKEN_FILE %s must hold one word of %d to %d characters", file, tokenMin, tokenMax)
	}

	return token, nil
}

// A token has 128 bits, in 26 characters as the room makes it.
const tokenMin, tokenMax = 22, 200

// Handler serves the page and its API to whoever has the token. hosts are the names by which it is
// reached, host:port: with another one, somebody else's page speaks.
func (r *Room) Handler(token string, hosts []string) http.Handler {
	mux := http.NewServeMux()
	for at, file := range map[string]string{
		"GET /{$}": "index.html", "GET /room.css": "room.css", "GET /room.js": "room.js",
		"GET /favicon.svg": "favicon.svg",
	} {
		mux.HandleFunc(at, func(w http.ResponseWriter, q *http.Request) { http.ServeFileFS(w, q, page.Files, file) })
	}
	d := door{token: sha256.Sum256([]byte(token)), hosts: hosts}
	mux.Handle("GET /api/picture", d.inside(func(w http.ResponseWriter, q *http.Request) {
		web.WriteJSON(w, http.StatusOK, r.Picture(q.URL.Query().Get("history") != "no"))
	}))
	mux.Handle("GET /api/letters", d.inside(func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusOK, append([]Letter{}, r.flows.deadLetters()...))
	}))
	mux.Handle("GET /api/payments/{id}", d.inside(r.serveLife))
	mux.Handle("GET /api/report", d.inside(func(w http.ResponseWriter, _ *http.Request) {
		html, err := page.Frozen(r.Picture(true))
		if err != nil {
			problemOf(http.StatusInternalServerError, "no-report", "No report", err).Write(w)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// Opened here, its script and style would be refused: it is for a disk.
		w.Header().Set("Content-Disposition", `attachment; filename="report.html"`)
		_, _ = w.Write(html)
	}))
	mux.Handle("POST /api/acts", d.inside(func(w http.ResponseWriter, q *http.Request) {
		var act Act
		if problem := web.ReadJSON(q.Body, &act); problem != nil {
			problem.Write(w)
			return
		}
		err := r.Do(q.Context(), act)

		var refused refusal
		switch {
		case errors.As(err, &refused):
			p := problemOf(http.StatusBadRequest, "bad-act", "The act cannot be done", err)
			p.Field, p.Value, p.Rule = refused.field, refused.value, "must be "+refused.rule
			p.Write(w)
		case err != nil:
			problemOf(http.StatusConflict, "not-done", "The act was not done", err).Write(w)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))

	return d.outside(mux)
}

func problemOf(status int, kind, title string, err error) *web.Problem {
	return &web.Problem{Type: web.Kind(kind), Title: title, Status: status, Detail: err.Error()}
}

// door decides who may look and act.
type door struct {
	token [sha256.Size]byte // its digest
	hosts []string
}

// outside is what everybody must pass: by the right name, and with what keeps browsers honest.
func (d door) outside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")

		if !d.named(r.Host) {
			problemOf(http.StatusMisdirectedRequest, "wrong-host", "Wrong host",
				fmt.Errorf("Host is %.100q: it must be one of %s", r.Host, strings.Join(d.hosts, ", "))).Write(w)
			return
		}

		if origin := r.Header.Get("Origin"); origin != "" && !d.named(strings.TrimPrefix(origin, "http://")) {
			problemOf(http.StatusForbidden, "wrong-origin", "Wrong origin",
				fmt.Errorf("Origin is %.100q: only the room's own page may ask", origin)).Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (d door) named(host string) bool {
	return slices.ContainsFunc(d.hosts, func(known string) bool { return strings.EqualFold(host, known) })
}

// inside wants the token, which no form of another page can send.
func (d door) inside(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
		if subtle.ConstantTimeCompare(given[:], d.token[:]) != 1 {
			p := problemOf(http.StatusUnauthorized, "no-token", "No token",
				errors.New("the header Authorization must be Bearer and the token of the room's URL"))
			p.Challenge = "Bearer"
			p.Write(w)

			return
		}

		if problem := web.Known(w, r, "the owner"); problem != nil {
			problem.Write(w)
			return
		}
		next(w, r)
	})
}

// Hosts returns the names by which a server on an address is reached from this machine.
func Hosts(address string) []string {
	host, port, _ := net.SplitHostPort(address) // a listener's is one

	hosts := []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}
	if host != "" && host != "0.0.0.0" && host != "::" {
		hosts = append(hosts, net.JoinHostPort(host, port))
	}

	return hosts
}

// URL is the address of the page for a person. A browser keeps the fragment to itself.
func URL(address, token string) string {
	_, port, _ := net.SplitHostPort(address)
	return "http://127.0.0.1:" + port + "/#token=" + token
}

func (r *Room) serveLife(w http.ResponseWriter, q *http.Request) {
	id, err := pix.ParsePaymentOrReturnID(q.PathValue("id"))
	if err != nil {
		problemOf(http.StatusBadRequest, "bad-id", "Neither an EndToEndId nor an RtrId", err).Write(w)
		return
	}

	life, err := r.life(q.Context(), id)
	if errors.As(err, new(*unnamed)) {
		problemOf(http.StatusNotFound, "not-found", "No such return", err).Write(w)
		return
	}

	if err != nil {
		problemOf(http.StatusServiceUnavailable, "not-known", "Not known now", err).Write(w)
		return
	}
	web.WriteJSON(w, http.StatusOK, life)
}
