package notify

import (
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Kinds returns every kind of notice, sorted.
func Kinds() []Kind {
	list := []Kind{
		Welcome, AttributesUpdated, EmailUpdated, PhoneNumberUpdated, PasswordUpdated, PasswordBlocked, AccountBlocked, AccountRemoved,
		IdentityCoupled, StepUpCode, PINReset,
		AccountInvitation, AddressCode, ResetLink, PasswordReset, ResetNoPassword, SignUpCode, SignUpExisting, Activation, ActivationCode,
		EmailVerification, PasskeyAdded,
		PasskeyRemoved, PasskeySuspected, MethodRemoved, AppPasswordMade,
		AccountSeen, AccessRequested, EventAlert, SignInSettings, AccessGranted, AccessRefused,
		IDCardValidated, IDCardRefused, AccountUnlinked,
		CouplingUnverified, CouplingAmbiguous, CouplingUntrusted, QuotaReached, Test,
	}
	slices.Sort(list)
	return list
}

// TextKinds returns every kind of text message, sorted.
func TextKinds() []Kind { return []Kind{SMSPhoneCode, SMSResetCode, SMSStepUpCode, SMSUsernames} }

// samples returns the values in the messages of samples: nothing of it is of anybody, and the code is of no account.
func samples() map[string]string {
	return map[string]string{
		"username": "ann", "usernames": "ann", "address": "new@example.com", "provider": "Partner account", "code": "123456",
		"application": "The shop", "subject": "f3a1", "app": "Phone",
		"administrator": "ben@example.com", "sites": "dav.example.com", "site": "wiki.example.com", "person": "ann", "alert": "Refusals",
		"count":  "3",
		"client": "shop", "percent": "80", "quota": "10000/month of the plan gold", "used": "8000", "of": "10000",
		"settings": "login_methods.login_methods", "method": "authenticator",
	}
}

// SampleOf returns a notice with everything that its kind can have, made up. Its button leads to the account pages.
func SampleOf(kind Kind, words web.Words, at time.Time) Notice {
	n := Notice{Kind: kind, To: "ann@example.com", PersonID: "1", Name: "Ann", At: at, Until: at.Add(30 * 24 * time.Hour), Data: samples()}
	if action := "mail." + string(kind) + ".action"; words.T(action) != action {
		n.Link = "/account"
	}
	if strings.HasPrefix(string(kind), "access_") {
		n.Data["note"] = "for the audit"
	}
	if kind == EventAlert {
		n.Events = []Happened{{Type: "login.LoginFailedEvent", Name: "Login Failed", At: at, From: "192.0.2.1"}}
	}
	if kind == IdentityCoupled {
		n.Data["account"] = "ann@partner.example"
	}
	return n
}

// SampleText returns a text message of a kind, made up.
func SampleText(kind Kind, at time.Time) SMS {
	m := SMS{Kind: kind, At: at, Data: samples()}
	if kind == SMSUsernames {
		delete(m.Data, "code")
	}
	return m
}
