package qrlogin

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Events of phones that sign in another browser.
var (
	approved = audit.Type{Type: "login.PhoneApprovedEvent", Name: "Sign-in Approved By Phone"}
	denied   = audit.Type{Type: "login.PhoneDeniedEvent", Name: "Sign-in Denied By Phone"}
)
