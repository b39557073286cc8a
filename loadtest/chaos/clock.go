package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/liquida/liquida/deploy/stack"
)

// skewProducer runs the producer with a wrong clock. The judges notice if it calls a payment
// expired too early. That it takes no payment is checked here: a payment with too early a date
// would end with AB03, which faults excuse.
func skewProducer(ctx context.Context, w *world, f *fault) error {
	// The ledger stays: without it a producer cannot compare its clock at its start.
	free, err := w.take(ctx, append([]string{stack.Producer}, w.Replicas()...)...)
	if err != nil {
		return err
	}
	defer free()
	offset := f.between(5*time.Second, 70*time.Second)
	if f.random.IntN(2) == 0 {
		offset = -offset
	}
	f.Target, f.Detail = stack.Producer, offset.Round(time.Second).String()
	w.begin(f)
	if err := w.Kill(stack.Producer); err != nil {
		return err
	}
	died, err := w.processes.StartToDie(stack.Producer, "PRODUCER_CLOCK_OFFSET="+offset.String())
	if err != nil {
		return err
	}
	unready, cancel := context.WithTimeout(ctx, recoveryMax)
	defer cancel()
	for {
		if err := w.processes.Ready(unready, stack.Producer); err != nil && strings.Contains(err.Error(), "clock: this machine's clock differs") {
			break
		}
		select {
		case <-unready.Done():
			return fmt.Errorf("its clock is %s wrong, and after %s it does not say so", f.Detail, recoveryMax)
		case <-died:
			return fmt.Errorf("it ended with a clock that is %s wrong", f.Detail)
		case <-time.After(100 * time.Millisecond):
		}
	}
	f.hold(ctx, 4*time.Second, 8*time.Second)
	problem := w.refusesPayments(ctx)
	if err := w.Kill(stack.Producer); err != nil {
		return err
	}
	<-died
	if err := w.bring(ctx, f, stack.Producer); err != nil {
		return err
	}
	return problem
}

// refusesPayments returns an error unless the producer refuses a payment because of its clock.
func (w *world) refusesPayments(ctx context.Context) error {
	payer := w.simulator.population.Customer(0)
	account := fmt.Sprintf(`{"ispb": %q, "branch": %q, "number": %q}`, payer.ISPB, payer.Branch, payer.Number)
	w.callers.Close() // connections to the producer that ran before
	answer, err := w.callers.Send(ctx, http.MethodPost, "/v1/payments", string(payer.ISPB), []byte(`{"payer": `+account+`, "payee": `+account+`, "amount_centavos": 1}`))
	if err == nil && (answer.Status != http.StatusServiceUnavailable || !strings.Contains(string(answer.Body), "clock-wrong")) {
		err = fmt.Errorf("with a wrong clock it answers a payment with %d: %s", answer.Status, answer.Body)
	}
	return err
}
