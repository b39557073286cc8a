package submission

import (
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/pix"
	"github.com/liquida/liquida/services/producer/access"
)

func TestAParticipantGivesBackOnlyWhatItReceived(t *testing.T) {
	now, original := time.Now(), pix.NewEndToEndID("10000001", time.Now(), random)
	order := func() *ReturnOrder {
		return &ReturnOrder{OriginalEndToEndID: original.String(), AmountCentavos: 1, ReasonCode: "MD06"}
	}

	own := order()
	if _, _, problem := own.sending(access.Caller{Holder: "10000002"}, now); problem != nil ||
		!strings.HasPrefix(own.ReturnID, "D10000002") {
		t.Errorf("%s: %+v", own.ReturnID, problem)
	}

	for holder, allowed := range map[string]bool{"": true, "10000002": true, "10000001": false,
		keys.CentralBank: false} {
		again := order()
		again.ReturnID = own.ReturnID

		_, _, problem := again.sending(access.Caller{Holder: holder}, now)
		if (problem == nil) != allowed || problem != nil && (problem.Status != 403 || problem.Field != "return_id") {
			t.Errorf("%q: %+v", holder, problem)
		}
	}

	if _, _, problem := order().sending(access.Caller{Holder: keys.CentralBank}, now); problem == nil {
		t.Error("the central bank, which owns no account, got an id made")
	}
}
