package idp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// The results of a Step.
const (
	StepOK      = "ok"
	StepWarning = "warning"
	StepFailed  = "failed"
)

const (
	// endsSoon is the time before the end of a certificate from which it is reported.
	endsSoon = 30 * 24 * time.Hour
	// maxDrift is the accepted difference between our clock and that of a provider.
	maxDrift = time.Minute
)

// Step is one thing that was tried at a provider. It holds no secret, and no text of the provider that cannot be
// printed.
type Step struct {
	Name   string `json:"name"`   // what was tried, such as metadata
	Result string `json:"result"` // StepOK, StepWarning or StepFailed
	What   string `json:"what"`   // what was found
	Fix    string `json:"fix,omitempty"`
}

// Steps are the steps of a Checker, in order.
type Steps []Step

// OK adds a step that has gone well.
func (s *Steps) OK(name, format string, args ...any) {
	*s = append(*s, Step{Name: name, Result: StepOK, What: fmt.Sprintf(format, args...)})
}

// Warn adds a step that does not keep anybody out today.
func (s *Steps) Warn(name, what, fix string) {
	*s = append(*s, Step{Name: name, Result: StepWarning, What: what, Fix: fix})
}

// Fail adds a step that keeps people from signing in. An empty fix is that of the error, where it is known.
func (s *Steps) Fail(name string, err error, fix string) {
	if fix == "" {
		fix = fixOf(err)
	}
	*s = append(*s, Step{Name: name, Result: StepFailed, What: strings.Join(strings.Fields(err.Error()), " "), Fix: fix})
}

// Err returns the first step that has failed as an error, or nil.
func (s *Steps) Err() error {
	for _, one := range *s {
		if one.Result == StepFailed {
			return fmt.Errorf("%s: %s", one.Name, one.What)
		}
	}
	return nil
}

// Ends reports when a certificate ends.
func (s *Steps) Ends(name string, c *x509.Certificate, now time.Time) {
	day := c.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.After(c.NotAfter):
		s.Fail(name, fmt.Errorf("it ended on %s", day), "the provider must replace it")
	case now.Before(c.NotBefore):
		s.Fail(name, fmt.Errorf("it is not valid before %s", c.NotBefore.UTC().Format(time.DateOnly)), "look at the clock of this machine")
	case now.Add(endsSoon).After(c.NotAfter):
		s.Warn(name, "it ends on "+day, "ask the provider when it is replaced")
	default:
		s.OK(name, "valid until %s", day)
	}
}

// Connection reports the certificate of a connection, if it is encrypted, and how far the clocks are apart where the
// answer has a date.
func (s *Steps) Connection(state *tls.ConnectionState, h http.Header, now time.Time) {
	if state != nil && len(state.PeerCertificates) > 0 {
		s.Ends("certificate of the address", state.PeerCertificates[0], now)
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	drift := now.Sub(date).Round(time.Second)
	if drift.Abs() > maxDrift {
		s.Warn("clock", fmt.Sprintf("the provider's clock and ours are %s apart", drift.Abs()),
			"synchronise the clock of this machine: with another minute between them, sign-ins are refused")
		return
	}
	s.OK("clock", "the same as the provider's to within a minute")
}

// fixOf says what to do about an error of a connection.
func fixOf(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		expired x509.CertificateInvalidError
		name    *net.DNSError
	)
	switch {
	case errors.As(err, &unknown):
		return "its certificate comes from an authority that this machine does not know: add the authority to those of the system"
	case errors.As(err, &host):
		return "its certificate is for another name: look at the address"
	case errors.As(err, &expired):
		return "its certificate cannot be used: look at its end and at the clock of this machine"
	case errors.As(err, &name):
		return "the name of the host is not known to DNS: look at the address"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: look at the address, its port and the firewall"
	case errors.Is(err, context.DeadlineExceeded):
		return "it does not answer in time: look at the address, the firewall and the provider"
	}
	return ""
}
