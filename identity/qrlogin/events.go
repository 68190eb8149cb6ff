package qrlogin

import (
	"github.com/gatehouse-id/gatehouse/internal/event"
)

// Events of phones that sign in another browser.
var (
	approved = event.Type{Type: "login.PhoneApprovedEvent", Name: "Sign-in Approved By Phone"}
	denied   = event.Type{Type: "login.PhoneDeniedEvent", Name: "Sign-in Denied By Phone"}
)
