package idp

import (
	"context"
	"net/http"
	"net/netip"
)

// Unusable returns a Provider in place of one that cannot be made, such as for want of a file: signing in there fails
// with the cause, as at a provider that is down, and no other way to sign in is affected. password says that its people
// type their passwords on our own page.
func Unusable(cause error, password bool) Provider {
	u := unusable{&Misconfigured{cause}}
	if password {
		return unusableTaker{u}
	}
	return unusableRedirector{u}
}

type unusable struct{ cause error }

func (unusable) Parameters() []string { return nil }

func (u unusable) Warnings() []Warning { return []Warning{NoOne(u.cause)} }

func (u unusable) Check(context.Context) (steps Steps) {
	steps.Fail("configuration", u.cause, "correct it, and run `caddy reload --force`")
	return steps
}

type unusableRedirector struct{ unusable }

func (u unusableRedirector) Begin(context.Context, Request) (*Next, error) { return nil, u.cause }

func (unusableRedirector) FlowOf(*http.Request) (string, error) { return "", nil }

func (u unusableRedirector) Finish(context.Context, []byte, *http.Request) (*Identity, error) {
	return nil, u.cause
}

type unusableTaker struct{ unusable }

func (u unusableTaker) SignIn(context.Context, Credentials) (*Identity, error) { return nil, u.cause }

func (unusableTaker) Serves(netip.Addr) bool { return true }

func (unusableTaker) OwnGroups() []string { return nil }

var (
	_ Redirector    = unusableRedirector{}
	_ PasswordTaker = unusableTaker{}
	_ Checker       = unusable{}
	_ Warner        = unusable{}
)
