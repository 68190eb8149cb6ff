package session

import (
	"errors"
	"slices"

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

const (
	// PasskeyLevel is what a passkey gives that has verified its owner: something one has, and something one knows or is.
	PasskeyLevel = 3
	PasskeyWord  = "FINGER_PRINT" // of the token server document
	// Word is the amr of every step-up that the token server document has no word of its own for.
	Word = "CUSTOM_AUTHENTICATOR"
)

// methodWords is how tokens name a method.
type methodWords struct {
	amr string // word of the token server document
	// reference is its value of RFC 8176. Empty: it has none, or its word says it
	reference string
	// with is the method that goes when this one goes. Empty: none
	with string
}

// methodTable has every method.
var methodTable = map[string]methodWords{
	MethodPasskey:   {amr: PasskeyWord},
	MethodTOTP:      {amr: Word, reference: "otp", with: MethodRecovery},
	MethodPush:      {amr: Word, reference: "mca"},
	MethodPIN:       {amr: Word, reference: "pin"},
	MethodSMS:       {amr: Word, reference: "sms"},
	MethodEmail:     {amr: Word, reference: "otp"},
	MethodDelivered: {amr: Word, reference: "otp"},
	MethodRecovery:  {amr: Word, reference: "otp"},
}

// Raise notes what a method has raised the session to, and by which passkey ("": by none).
func (r *Record) Raise(method, passkey string, level int) {
	if r.Base == nil {
		r.Base = &BaseRecord{Level: r.Level, AMR: r.AMR}
	}
	r.Raised = append(slices.DeleteFunc(slices.Clone(r.Raised), func(x raisedRecord) bool { return x.Method == method && x.Passkey == passkey }),
		raisedRecord{Method: method, Level: level, Passkey: passkey})
	r.SettleLevel()
}

// isOf tells whether a passkey that was kept is the one that is meant. "" means any of them, and where nobody has kept which it was it is each.
func isOf(kept, meant string) bool { return meant == "" || kept == "" || kept == meant }

// lower forgets what methods have raised the session to, by this passkey ("": by any), and tells whether that was anything.
func (r *Record) lower(passkey string, methods ...string) bool {
	left := slices.DeleteFunc(slices.Clone(r.Raised), func(x raisedRecord) bool { return slices.Contains(methods, x.Method) && isOf(x.Passkey, passkey) })
	if len(left) == len(r.Raised) {
		return false
	}
	r.Raised = left
	r.SettleLevel()
	return true
}

// lowerSignIn makes a sign-in by this passkey ("": by any) worth no more than one by a password, and tells whether it was.
func (r *Record) lowerSignIn(passkey string) bool {
	base := r.StartedAt()
	if by := r.Passkey != "" || slices.Contains(base.AMR, PasskeyWord); r.Provider != LocalProvider || base.Level <= PasswordLevel || !by || !isOf(r.Passkey, passkey) {
		return false
	}
	base.Level = PasswordLevel
	r.Base = &base
	r.SettleLevel()
	return true
}

// StartedAt is what the sign-in itself has reached.
func (r *Record) StartedAt() BaseRecord {
	if r.Base != nil {
		return *r.Base
	}
	return BaseRecord{Level: r.Level, AMR: r.AMR}
}

// SettleLevel finds the level and the words anew: those of the sign-in, and of what has raised it.
func (r *Record) SettleLevel() {
	r.Level, r.AMR = r.Base.Level, slices.Clone(r.Base.AMR)
	for _, x := range r.Raised {
		r.Level = max(r.Level, x.Level)
		if m, known := methodTable[x.Method]; known && !slices.Contains(r.AMR, m.amr) {
			r.AMR = append(r.AMR, m.amr)
		}
	}
}

// references are the values of RFC 8176 for what has raised the session.
func (r *Record) references() (out []string) {
	for _, x := range r.Raised {
		if m := methodTable[x.Method]; m.reference != "" && !slices.Contains(out, m.reference) {
			out = append(out, m.reference)
		}
	}
	return out
}

// raisedNames are the names under which a method has raised sessions: recovery codes go with the app.
func raisedNames(method string) []string {
	if with := methodTable[method].with; with != "" {
		return []string{method, with}
	}
	return []string{method}
}

// LowerSessions takes from every session of a person what a method has raised it to that the person has no more: of several passkeys this one, all when it
// is "".
func (s *Service) LowerSessions(tx storage.Tx, person, method, passkey string) error {
	var lowered []Live
	for e, err := range recordsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if rec.PersonID != person {
			continue
		}
		raised, begun := rec.lower(passkey, raisedNames(method)...), method == MethodPasskey && rec.lowerSignIn(passkey)
		if raised || begun {
			lowered = append(lowered, Live{id, rec})
		}
	}
	for _, o := range lowered {
		if err := Records.Put(tx, o.ID, o.Rec, s.Collect(o.Rec)); err != nil {
			return err
		}
	}
	return nil
}
