package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// batchPath may have a larger body than other paths.
const batchPath = "/v1/payments:batch"

// routes is the HTTP API, measured.
func routes(acceptance *acceptance, batches *batches, reads *reads, registry prometheus.Registerer) http.Handler {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pix_producer_requests_total", Help: "HTTP requests answered, by route and HTTP status.",
	}, []string{"route", "status"})
	acceptSeconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "pix_producer_accept_seconds", Help: "Time from a payment's request to the answer that Kafka has acknowledged it (202 only).",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pix_producer_requests_in_flight", Help: "HTTP requests that are being answered.",
	})
	registry.MustRegister(requests, acceptSeconds, inFlight)

	mux := http.NewServeMux()
	measured := func(route string, handler http.Handler) {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			inFlight.Inc()
			defer inFlight.Dec()
			started := time.Now()
			answer := &statusWriter{ResponseWriter: w}
			handler.ServeHTTP(answer, r)
			requests.WithLabelValues(route, strconv.Itoa(answer.status)).Inc()
			if answer.status == http.StatusAccepted {
				acceptSeconds.Observe(time.Since(started).Seconds())
			}
		})
	}
	measured("POST /v1/payments", acceptance)
	measured("POST "+batchPath, batches)
	measured("GET /v1/payments/{endToEndId}", status{reads})
	measured("GET /v1/payments/{endToEndId}/events", http.HandlerFunc(acceptance.follow.events))
	measured("GET /v1/settlements", http.HandlerFunc(acceptance.follow.stream))
	accounts, participants := accounts{reads}, &participants{reads: reads}
	measured("GET /v1/accounts/{ispb}/{branch}/{number}", accounts)
	measured("GET /v1/accounts/{ispb}/{branch}/{number}/statement", http.HandlerFunc(accounts.statement))
	measured("GET /v1/participants", http.HandlerFunc(participants.list))
	measured("GET /v1/participants/{ispb}", participants)
	return mux
}

// statusWriter remembers the HTTP status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap lets a stream reach the deadlines and the flushing of what is wrapped.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) Write(text []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(text)
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
