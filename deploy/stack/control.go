package stack

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// control is how the room of a foreground stack acts on it. The stack's own process must do it: so what
// the room kills is no crash, and what it starts again ends with the stack.
type control struct {
	Address string `json:"address"` // loopback
	Token   string `json:"token"`   // the state file has mode 0600
}

// answerMax bounds what control reads of an answer.
const answerMax = 64 << 10

// serve takes acts until the listener closes.
func (c control) serve(listener net.Listener, act func(ctx context.Context, act, name string) error) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{act}/{name}", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+c.Token)) != 1 {
			http.Error(w, "the token is wrong", http.StatusUnauthorized)
			return
		}
		if err := act(r.Context(), r.PathValue("act"), r.PathValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	_ = server.Serve(listener) // until the stack stops
}

// ask asks the stack's process for an act, and returns when it is done.
func (c control) ask(ctx context.Context, act, name string) error {
	_, err := askWithToken(ctx, http.MethodPost, "http://"+c.Address+"/"+act+"/"+name, c.Token, nil)
	return err
}

// askWithToken asks a process of the stack. What it refuses is the error.
func askWithToken(ctx context.Context, method, url, token string, body []byte) (answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := probe.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the stack's own process does not answer: %w", err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// openControl lets the room act on this foreground stack until it stops.
func (s *Stack) openControl() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.control = control{Address: listener.Addr().String(), Token: rand.Text()}
	go s.control.serve(listener, s.act)
	go func() {
		<-s.stopping
		listener.Close()
	}()
	return nil
}
