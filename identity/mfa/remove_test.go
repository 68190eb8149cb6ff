package mfa_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestRemovalByMail: the person is told which method is gone, with a link to the page that sets up another one, if the
// administrator wants that and the person had the method.
func TestRemovalByMail(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	h.Notices = new(notifytest.Notices)
	h.Start()
	u.Features.PINEnabled = true
	b := h.Plain()
	remove := func(mail bool) error {
		r := mfa.Removal{Method: "pin", Mail: mail}
		return h.StepUp.RemoveStepUp(t.Context(), identitytest.Demo, r, audit.Actor{ID: "admin"})
	}
	for _, mail := range []bool{false, true} {
		b.SetPIN("827164")
		if err := remove(mail); err != nil {
			t.Fatal(err)
		}
		if err := remove(mail); err == nil {
			t.Error("a PIN that is gone is removed again")
		}
		switch sent := h.Notices.Take(); {
		case !mail && len(sent) > 0:
			t.Errorf("unasked, the person gets %v", sent)
		case mail && (len(sent) != 1 || sent[0].Kind != notify.MethodRemoved || sent[0].To != "demo@example.com" ||
			sent[0].Data["method"] != "pin" || sent[0].Link != "/account/security"):
			t.Errorf("the person gets %v", sent)
		}
	}
}
