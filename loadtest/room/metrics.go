package room

import (
	"context"
	"maps"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/liquida/liquida/loadtest/meter"
)

// metrics are what the services count. A service that starts again counts from zero.
type metrics struct {
	before map[string]reading // by address
}

// reading is one look at one service.
type reading struct {
	redelivered  float64
	atBanks      float64
	heldCentavos float64
	engine       bool
	producer     bool
}

// measured is what happened since the last look; nil: not known.
type measured struct {
	atBanks, heldCentavos *int64
	redelivered           int64
}

func newMetrics() *metrics { return &metrics{before: map[string]reading{}} }

// metricsTimeout bounds a look: a frozen service does not answer.
const metricsTimeout = 700 * time.Millisecond

// read asks all services at once.
func (m *metrics) read(ctx context.Context, addresses []string) (now measured) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	read := map[string]reading{}

	for _, address := range addresses {
		asked.Go(func() {
			families, err := meter.Families(ctx, "http://"+address)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			read[address] = readingOf(families)
		})
	}
	asked.Wait()
	var atBanks, heldCentavos int64

	for address, r := range read {
		before, known := m.before[address]
		if r.redelivered < before.redelivered { // a new life
			before = reading{}
		}

		if known {
			now.redelivered += int64(r.redelivered - before.redelivered)
		}

		if r.engine {
			atBanks += int64(r.atBanks)
			now.atBanks = &atBanks
		}

		if r.producer {
			heldCentavos = int64(r.heldCentavos) // each producer reads the same ledger
			now.heldCentavos = &heldCentavos
		}
	}
	maps.Copy(m.before, read)

	return now
}

func readingOf(families map[string]*dto.MetricFamily) reading {
	sum := func(family string) (all float64) {
		for _, metric := range families[family].GetMetric() {
			all += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}

		return all
	}

	return reading{
		redelivered: sum("pix_payments_redelivered_total"), atBanks: sum("pix_payments_waiting_for_psp"),
		heldCentavos: sum("pix_reserve_held_centavos"), engine: families["pix_payments_in_flight"] != nil,
		producer: families["pix_reserve_held_centavos"] != nil,
	}
}
