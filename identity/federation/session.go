package federation

import (
	"crypto/hmac"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	kindLast     = "last" // cookie that names the provider that was used last; it gives no access
	lastLife     = 400 * 24 * time.Hour
	providerSkew = 60 * time.Second // between our clock and a provider's
)

// Places of the events of an Opening.
const (
	evSucceeded = iota
	evSignedOut
	evCreated
	// EvCoupled is the place of the event of an identity that is linked to a person.
	EvCoupled
	evActivated
	evMadeRoom
	evAssured
)

// Opening is the data that a sign-in by a provider needs before its transaction.
type Opening struct {
	Now       time.Time
	Ev        []audit.Event
	token     string
	sessionID string
	old       string // hash of the browser's session cookie
	sealed    []byte // data that the provider keeps with the session
	locale    string // that the person prefers
	device    string // of this browser, after a typed password
	groups    *person.Update
	entry     denial.Entry
}

// PrepareSession makes the parts of a sign-in that must be made outside its transaction: tokens, ids and events.
func (s *Service) PrepareSession(r *http.Request, a *Answer) (o *Opening, err error) {
	o = &Opening{Now: s.deps.Now(), old: challenge.Hashed(s.deps.Jar.Get(r, session.CookieSession))}
	if o.token, err = secret.NewToken(s.deps.Random, secret.Session); err != nil {
		return nil, err
	}
	if o.sessionID, err = secret.ID(s.deps.Random, 16); err != nil {
		return nil, err
	}
	if len(a.Identity.Held) > 0 {
		if o.sealed, err = s.Seal("held", a.Key(), a.Identity.Held); err != nil {
			return nil, err
		}
	}
	if err = s.prepareTaker(r, a.Provider, o); err != nil {
		return nil, err
	}
	o.Ev, err = s.deps.Person.NewEvents(s.deps.Origin(r), webflow.LoginSucceeded, webflow.SignedOut, person.EventCreated, IdentityCoupled,
		person.EventActivated, webflow.SignedOut, assurance.EventSignedIn)
	return o, err
}

// Bind uses up the answer and opens the session, with its events.
func (s *Service) Bind(tx storage.Tx, a *Answer, o *Opening, m *Match) error {
	if err := TakeAnswer(tx, a); err != nil {
		return err
	}
	if err := s.bindTaker(tx, a, o, m); err != nil {
		return err
	}
	id := a.Identity
	vouched, err := person.IsVouched(tx, a.Provider.ID, id)
	if err != nil {
		return err
	}
	if s.deps.Person.HasRole(&m.Person) {
		switch {
		case vouched:
			return errPlanted
		case !a.Provider.admitsRoles():
			return errRole
		}
	}
	rec := session.Record{
		PersonID: m.ID, Epoch: m.Person.Epoch, AuthTime: o.Now, Opened: o.Now, Seen: o.Now, Level: id.Level, AMR: id.AMR, Provider: a.Provider.ID,
		Details: id.Details, NotAfter: id.NotAfter, SignedInFor: secret.Hash(a.Flow.Demand.Return), Held: true,
		Unproven: id.AuthTime.IsZero(), Vouched: vouched || a.Provider.Untrusted() != "" && !m.linked,
	}
	rec.From(audit.Origin{ClientIP: o.Ev[evSucceeded].ClientIP, UserAgent: o.Ev[evSucceeded].UserAgent})
	if !id.AuthTime.IsZero() && id.AuthTime.Before(o.Now) {
		rec.AuthTime = id.AuthTime
	}
	if len(rec.AMR) == 0 {
		rec.AMR = []string{"DEFAULT"}
	}
	m.lower(&rec, a.Flow.Demand.Level)
	assured, err := s.assure(tx, a, m, o.Now)
	if err != nil {
		return err
	}
	o.locale = m.Person.Locale
	o.entry = denial.Entry{
		PersonID: m.ID, Username: m.Person.Username, ClientID: a.Flow.Demand.Client.ID, By: "provider",
		Provider: a.Provider.ID, Level: rec.Level,
	}
	if rec.Again, err = session.MarkSignedIn(tx, m.ID, o.Now); err != nil {
		return err
	}
	sid, ended, err := s.deps.Session.Begin(tx, o.sessionID, o.token, o.old, rec)
	if err != nil {
		return err
	}
	if err := s.hold(tx, sid, a, o, rec); err != nil {
		return err
	}
	if err := s.tellPerson(tx, a, m, o.Now); err != nil {
		return err
	}
	si := &session.Current{ID: sid, Session: rec, Person: m.Person}
	var happened []audit.Event
	if assured {
		happened = append(happened, si.OwnEvent(o.Ev[evAssured], webflow.SignedInBy+a.Provider.Name))
	}
	if m.Created {
		reason := person.ReasonWith(webflow.SignedInBy+a.Provider.Name, PersonFrom(a.Identity).LeftOut)
		happened = append(happened, si.OwnEvent(o.Ev[evCreated], reason))
	}
	if m.Created || m.NewlyOne {
		reason := "by " + a.Provider.Name
		if m.Renamed {
			reason += ", in place of another name there"
		}
		happened = append(happened, si.OwnEvent(o.Ev[EvCoupled], reason))
	}
	for i, x := range ended {
		happened = append(happened, x.OwnEvent(o.Ev[[session.MostEnded]int{evSignedOut, evMadeRoom}[i]], x.Reason))
	}
	e := si.OwnEvent(o.Ev[evSucceeded], webflow.SignedInBy+a.Provider.Name)
	e.ClientID = a.Flow.Demand.Client.ID
	return s.appendAll(tx, append(happened, e))
}

func (s *Service) appendAll(tx storage.Tx, list []audit.Event) error {
	for _, e := range list {
		if err := s.deps.Events.Append(tx, e); err != nil {
			return err
		}
	}
	return nil
}

// hold stores the data that the provider keeps with the session, and the names by which the provider can end it.
func (s *Service) hold(tx storage.Tx, sessionID string, a *Answer, o *Opening, rec session.Record) error {
	h := session.ProviderRecord{Provider: a.Provider.ID, Identity: a.Key(), Sealed: o.sealed}
	expires := s.deps.Session.Collect(rec)
	names := []string{subjectName(a.Identity.Issuer, a.Identity.Subject)}
	for _, n := range a.Identity.Sessions {
		name := sessionName(a.Identity.Issuer, n)
		h.Names, names = append(h.Names, name), append(names, name)
	}
	for _, n := range names {
		if err := sessionNames.Put(tx, storage.Key(a.Provider.ID, n, sessionID), struct{}{}, expires); err != nil {
			return err
		}
	}
	return session.ProviderRecords.Put(tx, sessionID, h, expires)
}

// subjectName returns the name of all sessions of a subject at a provider.
func subjectName(issuer, subject string) string {
	return secret.Hash("subject\x00" + issuer + "\x00" + subject)
}

// sessionName returns the name of one session, which the provider has named.
func sessionName(issuer, name string) string {
	return secret.Hash("session\x00" + issuer + "\x00" + name)
}

// FinishSignIn sets the cookies of a session that a provider opened.
func (s *Service) FinishSignIn(w http.ResponseWriter, r *http.Request, a *Answer, o *Opening) {
	s.deps.Pages.Choose(w, r, o.locale)
	s.deps.Front.Entered(r.Context(), o.entry)
	s.deps.Session.SetNewCookie(w, o.token)
	if o.device != "" {
		s.deps.Jar.Set(w, session.CookieDevice, o.device, session.DeviceLife)
	}
	s.deps.Jar.Set(w, kindLast, a.Provider.ID+"."+s.lastMAC(a.Provider.ID), lastLife)
}

// lastMAC authenticates the cookie of the last provider.
func (s *Service) lastMAC(id string) string {
	return base64.RawURLEncoding.EncodeToString(secret.MAC(s.deps.Keyring.Derive("gatehouse last provider v1"), id)[:16])
}

// LastUsed returns the provider that this browser signed in with last, or "".
func (s *Service) LastUsed(r *http.Request) string {
	v := s.deps.Jar.Get(r, kindLast)
	i := strings.LastIndexByte(v, '.')
	if i < 0 || !hmac.Equal([]byte(v[i+1:]), []byte(s.lastMAC(v[:i]))) {
		return ""
	}
	return v[:i]
}
