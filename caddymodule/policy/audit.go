package policy

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Audit says how the calls that pass are recorded. Empty: they are not.
type Audit string

// The ways to record calls.
const (
	AuditEvents Audit = "events" // each is an event
	AuditLog    Audit = "log"    // in the log of calls, which events confirm
)

// CheckAudit checks the text of an Audit.
func CheckAudit(text string) error {
	if a := Audit(text); a != AuditEvents && a != AuditLog {
		return fmt.Errorf("%q: want events or log", text)
	}
	return nil
}

// Read reads the option: audit [log]
func (a *Audit) Read(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	switch {
	case *a != "":
		return d.Errf("audit is already set: %s", *a)
	case len(args) == 0:
		*a = AuditEvents
	case len(args) == 1 && args[0] == string(AuditLog):
		*a = AuditLog
	default:
		return d.Errf("audit: unrecognized %q: write `audit` for an event of each call, or `audit log` for the log of calls", args[0])
	}
	return caddyfileutil.NoMore(d, "audit")
}
