package session

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The methods that raise sessions, as records, addresses and events name them.
const (
	MethodPasskey   = "passkey"
	MethodTOTP      = "authenticator"
	MethodPush      = "push"
	MethodPIN       = "pin"
	MethodSMS       = "sms"
	MethodEmail     = "email"
	MethodDelivered = "delivered"
	MethodRecovery  = "recovery"
)

// The level of passkeys, and the words (amr) of the methods in tokens.
const (
	// PasskeyLevel is the level of a passkey that has verified its owner: something one has, and something one knows or
	// is.
	PasskeyLevel = 3
	// AMRPasskey is the amr of a passkey. (token server document)
	AMRPasskey = "FINGER_PRINT"
	// AMRCustom is the amr of all other step-ups: the token server document has no word for them.
	AMRCustom = "CUSTOM_AUTHENTICATOR"
)

// methodWords says how tokens name a method.
type methodWords struct {
	amr string // by the token server document
	// reference is the value of RFC 8176. Empty: amr says it, or no value fits
	reference string
	// with is a method that is lost together with this one. Empty: none
	with string
}

// methodTable has every method.
var methodTable = map[string]methodWords{
	MethodPasskey:   {amr: AMRPasskey},
	MethodTOTP:      {amr: AMRCustom, reference: "otp", with: MethodRecovery},
	MethodPush:      {amr: AMRCustom, reference: "mca"},
	MethodPIN:       {amr: AMRCustom, reference: "pin"},
	MethodSMS:       {amr: AMRCustom, reference: "sms"},
	MethodEmail:     {amr: AMRCustom, reference: "otp"},
	MethodDelivered: {amr: AMRCustom, reference: "otp"},
	MethodRecovery:  {amr: AMRCustom, reference: "otp"},
}

// Raise records that a method has raised the session to a level. passkey is the id of the passkey, "" for other
// methods. used is when the person has used it, zero if they have only set it up.
func (r *Record) Raise(method, passkey string, level int, used time.Time) {
	if r.Base == nil {
		r.Base = &BaseRecord{Level: r.Level, AMR: r.AMR}
	}
	r.Raised = append(slices.DeleteFunc(slices.Clone(r.Raised),
		func(x raisedRecord) bool { return x.Method == method && x.Passkey == passkey }),
		raisedRecord{Method: method, Level: level, Passkey: passkey, At: used})
	r.SettleLevel()
}

// RaisedSince reports whether a method has raised the session at a time or after it.
func (r *Record) RaisedSince(method string, since time.Time) bool {
	return slices.ContainsFunc(r.Raised, func(x raisedRecord) bool { return x.Method == method && !x.At.IsZero() && !x.At.Before(since) })
}

// isOf reports whether a recorded passkey matches an id. "" matches every id, on both sides.
func isOf(recorded, id string) bool { return id == "" || recorded == "" || recorded == id }

// lower takes back what methods have raised the session to, by one passkey ("": all), and reports whether that changes
// it.
func (r *Record) lower(passkey string, methods ...string) bool {
	left := slices.DeleteFunc(slices.Clone(r.Raised),
		func(x raisedRecord) bool { return slices.Contains(methods, x.Method) && isOf(x.Passkey, passkey) })
	if len(left) == len(r.Raised) {
		return false
	}
	r.Raised = left
	r.SettleLevel()
	return true
}

// lowerSignIn lowers a sign-in by a passkey ("": all) to the level of a password, and reports whether that changes it.
func (r *Record) lowerSignIn(passkey string) bool {
	base := r.Start()
	if by := r.Passkey != "" || slices.Contains(base.AMR, AMRPasskey); (r.Provider != LocalProvider && r.Passkey == "") ||
		base.Level <= PasswordLevel || !by || !isOf(r.Passkey, passkey) {
		return false
	}
	base.Level = PasswordLevel
	r.Base = &base
	r.SettleLevel()
	return true
}

// Start returns what the sign-in itself reached, before it was raised.
func (r *Record) Start() BaseRecord {
	if r.Base != nil {
		return *r.Base
	}
	return BaseRecord{Level: r.Level, AMR: r.AMR}
}

// SettleLevel computes level and methods (amr) from the sign-in and from what has raised it.
func (r *Record) SettleLevel() {
	r.Level, r.AMR = r.Base.Level, slices.Clone(r.Base.AMR)
	for _, x := range r.Raised {
		r.Level = max(r.Level, x.Level)
		if m, known := methodTable[x.Method]; known && !slices.Contains(r.AMR, m.amr) {
			r.AMR = append(r.AMR, m.amr)
		}
	}
}

// references returns the values of RFC 8176 for what has raised the session, and for the key that it is bound to.
func (r *Record) references() (out []string) {
	if r.IsBound() {
		out = append(out, "pop")
	}
	for _, x := range r.Raised {
		if m := methodTable[x.Method]; m.reference != "" && !slices.Contains(out, m.reference) {
			out = append(out, m.reference)
		}
	}
	return out
}

// raisedNames returns a method and what is lost together with it: recovery codes go with the authenticator.
func raisedNames(method string) []string {
	if with := methodTable[method].with; with != "" {
		return []string{method, with}
	}
	return []string{method}
}

// OnFactor adds a hook of a change of what a person's second factors are. It is called in that transaction.
func (s *Service) OnFactor(h func(tx storage.Tx, person string) error) {
	s.factorHooks = append(s.factorHooks, h)
}

// FactorChanged says that a person has got, changed or lost a second factor.
func (s *Service) FactorChanged(tx storage.Tx, person string) error {
	for _, h := range s.factorHooks {
		if err := h(tx, person); err != nil {
			return err
		}
	}
	return nil
}

// LowerSessions lowers all sessions that a method has raised which the person no longer has. passkey is the id of one
// passkey, "" for all.
func (s *Service) LowerSessions(tx storage.Tx, person, method, passkey string) error {
	return s.lowerSessions(tx, "", person, method, passkey)
}

// LowerOthers is LowerSessions for a person's sessions other than one.
func (s *Service) LowerOthers(tx storage.Tx, one, person, method string) error {
	return s.lowerSessions(tx, one, person, method, "")
}

func (s *Service) lowerSessions(tx storage.Tx, except, person, method, passkey string) error {
	if err := s.FactorChanged(tx, person); err != nil {
		return err
	}
	var lowered []Session
	ids, err := listed(tx, person)
	if err != nil {
		return err
	}
	for _, id := range ids {
		rec, found, err := Records.Find(tx, id)
		if err != nil {
			return err
		}
		if !found || rec.PersonID != person || id == except {
			continue
		}
		raised, begun := rec.lower(passkey, raisedNames(method)...), method == MethodPasskey && rec.lowerSignIn(passkey)
		if raised || begun {
			lowered = append(lowered, Session{id, rec})
		}
	}
	for _, o := range lowered {
		if err := Records.Put(tx, o.ID, o.Record, s.Collect(o.Record)); err != nil {
			return err
		}
	}
	return nil
}
