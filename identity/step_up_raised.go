package identity

import (
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The methods that raise sessions, as records, addresses and events name them.
const (
	methodPasskey   = "passkey"
	methodTOTP      = "authenticator"
	methodPush      = "push"
	methodPIN       = "pin"
	methodSMS       = "sms"
	methodEmail     = "email"
	methodDelivered = "delivered"
	methodRecovery  = "recovery"
)

const (
	// passkeyLevel is what a passkey gives that has verified its owner: something one has, and something one knows or is.
	passkeyLevel = 3
	passkeyWord  = "FINGER_PRINT" // of the token server document
	// stepUpWord is the amr of every step-up that the token server document has no word of its own for.
	stepUpWord = "CUSTOM_AUTHENTICATOR"
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
	methodPasskey:   {amr: passkeyWord},
	methodTOTP:      {amr: stepUpWord, reference: "otp", with: methodRecovery},
	methodPush:      {amr: stepUpWord, reference: "mca"},
	methodPIN:       {amr: stepUpWord, reference: "pin"},
	methodSMS:       {amr: stepUpWord, reference: "sms"},
	methodEmail:     {amr: stepUpWord, reference: "otp"},
	methodDelivered: {amr: stepUpWord, reference: "otp"},
	methodRecovery:  {amr: stepUpWord, reference: "otp"},
}

// raise notes what a method has raised the session to, and by which passkey ("": by none).
func (r *sessionRecord) raise(method, passkey string, level int) {
	if r.Base == nil {
		r.Base = &baseRecord{Level: r.Level, AMR: r.AMR}
	}
	r.Raised = append(slices.DeleteFunc(slices.Clone(r.Raised), func(x raisedRecord) bool { return x.Method == method && x.Passkey == passkey }),
		raisedRecord{Method: method, Level: level, Passkey: passkey})
	r.settleLevel()
}

// isOf tells whether a passkey that was kept is the one that is meant. "" means any of them, and where nobody has kept which it was it is each.
func isOf(kept, meant string) bool { return meant == "" || kept == "" || kept == meant }

// lower forgets what methods have raised the session to, by this passkey ("": by any), and tells whether that was anything.
func (r *sessionRecord) lower(passkey string, methods ...string) bool {
	left := slices.DeleteFunc(slices.Clone(r.Raised), func(x raisedRecord) bool { return slices.Contains(methods, x.Method) && isOf(x.Passkey, passkey) })
	if len(left) == len(r.Raised) {
		return false
	}
	r.Raised = left
	r.settleLevel()
	return true
}

// lowerSignIn makes a sign-in by this passkey ("": by any) worth no more than one by a password, and tells whether it was.
func (r *sessionRecord) lowerSignIn(passkey string) bool {
	base := r.begun()
	if by := r.Passkey != "" || slices.Contains(base.AMR, passkeyWord); r.Provider != provider || base.Level <= passwordLevel || !by || !isOf(r.Passkey, passkey) {
		return false
	}
	base.Level = passwordLevel
	r.Base = &base
	r.settleLevel()
	return true
}

// begun is what the sign-in itself has reached.
func (r *sessionRecord) begun() baseRecord {
	if r.Base != nil {
		return *r.Base
	}
	return baseRecord{Level: r.Level, AMR: r.AMR}
}

// settleLevel finds the level and the words anew: those of the sign-in, and of what has raised it.
func (r *sessionRecord) settleLevel() {
	r.Level, r.AMR = r.Base.Level, slices.Clone(r.Base.AMR)
	for _, x := range r.Raised {
		r.Level = max(r.Level, x.Level)
		if m, known := methodTable[x.Method]; known && !slices.Contains(r.AMR, m.amr) {
			r.AMR = append(r.AMR, m.amr)
		}
	}
}

// references are the values of RFC 8176 for what has raised the session.
func (r *sessionRecord) references() (out []string) {
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

// lowerSessions takes from every session of a person what a method has raised it to that the person has no more: of several passkeys this one, all when it
// is "".
func (s *Service) lowerSessions(tx storage.Tx, person, method, passkey string) error {
	var lowered []openSession
	for e, err := range sessionsOf.Scan(tx, storage.Range{Prefix: storage.Prefix(person)}) {
		if err != nil {
			return err
		}
		id := storage.Parts(e.Key)[1]
		rec, err := sessions.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if rec.PersonID != person {
			continue
		}
		raised, begun := rec.lower(passkey, raisedNames(method)...), method == methodPasskey && rec.lowerSignIn(passkey)
		if raised || begun {
			lowered = append(lowered, openSession{id, rec})
		}
	}
	for _, o := range lowered {
		if err := sessions.Put(tx, o.id, o.rec, s.collect(o.rec)); err != nil {
			return err
		}
	}
	return nil
}
