// Package web serves the HTTP APIs of the services. Everything has a limit, and errors are
// documents that programs can read (RFC 9457).
package web

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"github.com/liquida/liquida/platform/host"
	"github.com/liquida/liquida/platform/settings"
)

// Config is embedded in the configuration of services that serve HTTP.
type Config struct {
	Address        string        `env:"HTTP_ADDRESS" help:"where the HTTP API is served, host:port"`
	ReadTimeout    time.Duration `env:"HTTP_READ_TIMEOUT" envDefault:"5s" range:"100ms to 1m" help:"for the header and body of a request to arrive"`
	WriteTimeout   time.Duration `env:"HTTP_WRITE_TIMEOUT" envDefault:"30s" range:"1s to 10m" help:"for a request from its header to the end of the response"`
	IdleTimeout    time.Duration `env:"HTTP_IDLE_TIMEOUT" envDefault:"1m" range:"1s to 1h" help:"how long an unused connection is kept"`
	BodyBytesMax   int64         `env:"HTTP_BODY_BYTES_MAX" envDefault:"16384" range:"1024 to 1048576" help:"bytes in the body of a request"`
	ConnectionsMax int           `env:"HTTP_CONNECTIONS_MAX" envDefault:"4096" range:"1 to 100000" help:"connections at the same time; others wait in the kernel"`

	LargerBodies map[string]int64 // bytes by path, for those that take more than BodyBytesMax
	TLS          *tls.Config      // nil: plain HTTP
	Pools        *Pools           // nil: whoever comes first may take all connections
}

// headerBytesMax is far more than the APIs need and far less than does harm.
const headerBytesMax = 16 << 10

// Validate names the variable and the value that is wrong.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("HTTP_ADDRESS is %q: it must be host:port", c.Address)
	}

	return nil
}

// Loopback reports whether only this machine can reach the address.
func (c Config) Loopback() bool { return settings.Loopback(c.Address) }

// Server serves one handler on one address.
type Server struct {
	http    *http.Server
	address string
}

// Serve listens on config.Address. The address answers as soon as Serve returns.
func Serve(config Config, listen host.Listen, handler http.Handler, log *zap.Logger) (*Server, error) {
	listener, err := listen("tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot serve on HTTP_ADDRESS %s: %w", config.Address, err)
	}
	s := &Server{address: listener.Addr().String(), http: &http.Server{
		Handler:           config.limitBodies(handler),
		ReadHeaderTimeout: config.ReadTimeout, ReadTimeout: config.ReadTimeout,
		WriteTimeout: config.WriteTimeout, IdleTimeout: config.IdleTimeout,
		MaxHeaderBytes: headerBytesMax, ErrorLog: zap.NewStdLog(log.Named("http")), TLSConfig: config.TLS,
		Protocols: new(http.Protocols),
	}}
	s.http.Protocols.SetHTTP1(true) // no HTTP/2: ConnectionsMax would not bound its many requests in one connection

	limited := netutil.LimitListener(listener, config.ConnectionsMax)
	if config.Pools != nil {
		limited = newDoorway(config, listener)
		s.http.ConnContext = withConnection
	}
	go func() {
		serve := s.http.Serve
		if config.TLS != nil {
			serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") } // the certificate is in config.TLS
		}

		if err := serve(limited); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the HTTP API stopped serving", zap.Error(err))
		}
	}()

	return s, nil
}

func (c Config) limitBodies(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, cmp.Or(c.LargerBodies[r.URL.Path], c.BodyBytesMax))
		handler.ServeHTTP(w, r)
	})
}

// Address returns where the server listens, with the port that HTTP_ADDRESS may leave open.
func (s *Server) Address() string { return s.address }

// Stop takes no new requests and waits until those under way have ended or ctx has.
func (s *Server) Stop(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close cuts off what is left.
func (s *Server) Close() { _ = s.http.Close() }
