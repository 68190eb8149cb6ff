// Package assurance records how well a person's identity is proven: by providers that have checked it, or by backends
// that inspect identity documents. (docs/decisions/events.md#identity-assurance)
package assurance

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Limits of what is kept of one person.
const (
	MaxLevel    = 4
	maxEvidence = 16
	maxText     = 128 // characters of a reference and a claim
)

// ErrFull says that too many parties have said who a person is.
var ErrFull = errors.New("there is evidence of too many backends: withdraw some")

// documents are the types of identity documents. (OpenID Connect for Identity Assurance, identity documents)
var documents = []string{"idcard", "passport", "driving_permit", "residence_permit"}

// claims are the claims that a document, or a provider, can make about a person here.
var claims = []string{"given_name", "family_name", "birthdate"}

// Result is the result of a check of an identity card.
type Result string

// The results.
const (
	Validated Result = "VALIDATED"
	Refused   Result = "REFUSED"
)

// Report is the report of a backend about an identity card. Neither its number nor its picture has a place here.
type Report struct {
	Result   Result `json:"result" rest:"required"`
	Document string `json:"document_type" rest:"required"`
	// Level is the identity assurance level that the document gives, 1 to 4. A refused one has none.
	Level int `json:"identity_assurance_level,omitempty"`
	// Reference is the key of the backend's own record.
	Reference string    `json:"reference,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Claims are the claims of the document: given_name, family_name, birthdate.
	Claims map[string]string `json:"claims,omitempty"`
}

// check returns a *person.ValidationError if the report cannot be taken.
func (r *Report) check(now time.Time) error {
	bad := func(field, problem string) error { return &person.ValidationError{Field: field, Problem: problem} }
	switch {
	case r.Result != Validated && r.Result != Refused:
		return bad("result", "must be VALIDATED or REFUSED")
	case !slices.Contains(documents, r.Document):
		return bad("document_type", "must be idcard, passport, driving_permit or residence_permit")
	case r.Reference != "" && !person.IsText(r.Reference, maxText):
		return bad("reference", "is too long, or has control characters")
	case r.Result == Refused && (r.Level != 0 || len(r.Claims) > 0 || !r.ExpiresAt.IsZero()):
		return bad("result", "REFUSED has neither level, claims nor end")
	case r.Result == Refused:
		return nil
	case r.Level < 1 || r.Level > MaxLevel:
		return bad("identity_assurance_level", "must be 1 to 4")
	case !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(now):
		return bad("expires_at", "has passed")
	}
	for name, value := range r.Claims {
		if !slices.Contains(claims, name) {
			return bad("claims."+name, "is not one of given_name, family_name and birthdate")
		}
		if value == "" || !person.IsText(value, maxText) {
			return bad("claims."+name, "is empty, too long, or has control characters")
		}
		if _, err := time.Parse(time.DateOnly, value); name == "birthdate" && err != nil {
			return bad("claims."+name, "must be a date such as 1990-12-31")
		}
	}
	return nil
}

// Status is the assurance of a person's identity.
type Status struct {
	Level    int              `json:"identity_assurance_level" rest:"required"` // 0: it is not
	Evidence []authn.Evidence `json:"evidence" rest:"required"`
}

// Deps are the dependencies of the service.
type Deps struct {
	Person *person.Service
	Store  storage.Store
	Now    func() time.Time
}

// Service takes reports. It is safe for concurrent use.
type Service struct{ deps Deps }

// New returns a service.
func New(d Deps) *Service { return &Service{d} }

// Of returns how well the identity of a person is assured, or person.ErrNoPerson.
func (s *Service) Of(ctx context.Context, personID string) (out Status, err error) {
	now := s.deps.Now()
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		_, rec, err := s.find(tx, personID)
		out = status(rec.Assurance, now)
		return err
	})
	return out, err
}

func (s *Service) find(tx storage.Tx, personID string) (string, person.Record, error) {
	id, rec, err := s.deps.Person.Find(tx, personID)
	if err == nil && rec.State == person.Removed {
		err = person.ErrNoPerson
	}
	return id, rec, err
}

func status(a authn.Assurance, now time.Time) Status {
	return Status{Level: a.Level(now), Evidence: append([]authn.Evidence{}, a...)}
}

// Report takes what a backend says about an identity card of a person. The latest report of a backend counts: a refusal
// takes back what it has validated before. Errors: person.ErrNoPerson, *person.ValidationError, ErrFull.
func (s *Service) Report(ctx context.Context, personID string, r Report, by audit.Actor) (Status, error) {
	now := s.deps.Now().UTC()
	if err := r.check(now); err != nil {
		return Status{}, err
	}
	kind, notice, on := eventValidated, notify.IDCardValidated,
		func(n *settings.EmailNotifications) bool { return n.ValidationOfIDCardCompleted }
	if r.Result == Refused {
		kind, notice, on = eventRefused, notify.IDCardRefused, func(n *settings.EmailNotifications) bool { return n.ValidationOfIDCardFailed }
	}
	return s.change(ctx, personID, by, kind, now, func(tx storage.Tx, id string, rec *person.Record) error {
		rec.Assurance = rec.Assurance.Without(authn.EvidenceDocument, by.ID)
		if r.Result == Validated {
			if len(rec.Assurance) >= maxEvidence {
				return ErrFull
			}
			rec.Assurance = rec.Assurance.With(authn.Evidence{
				Kind: authn.EvidenceDocument, By: by.ID, Level: r.Level, Since: now, Until: r.ExpiresAt.UTC(), Document: r.Document,
				Reference: r.Reference, Claims: r.Claims,
			})
		}
		prof, err := person.ReadProfile(tx, id, rec)
		if err != nil {
			return err
		}
		return s.deps.Person.Notify(tx, person.Recipient{ID: id, Record: rec, Profile: &prof.Profile, VerifiedOnly: true}, notice, on, now)
	})
}

// Withdraw takes back all that shows who a person is, of every party, or returns person.ErrNoPerson.
func (s *Service) Withdraw(ctx context.Context, personID string, by audit.Actor) error {
	_, err := s.change(ctx, personID, by, eventWithdrawn, s.deps.Now(), func(_ storage.Tx, _ string, rec *person.Record) error {
		rec.Assurance = nil
		return nil
	})
	return err
}

func (s *Service) change(ctx context.Context, personID string, by audit.Actor, kind audit.Type, now time.Time,
	fn func(storage.Tx, string, *person.Record) error,
) (out Status, err error) {
	err = s.deps.Person.Change(ctx, personID, by, kind, func(tx storage.Tx, id string, rec *person.Record) (bool, error) {
		if rec.State == person.Removed {
			return false, person.ErrNoPerson
		}
		err := fn(tx, id, rec)
		out = status(rec.Assurance, now)
		return err == nil, err
	})
	return out, err
}

// BySignIn returns the assurance of a person who signs in by a provider whose people have a level, 0 for none, and
// whether that is another one than before. says is what the provider said of the person.
func BySignIn(before authn.Assurance, provider string, level int, says map[string]string, now time.Time) (authn.Assurance, bool) {
	at := slices.IndexFunc(before, func(e authn.Evidence) bool { return e.Kind == authn.EvidenceSignIn && e.By == provider })
	if at < 0 && level == 0 {
		return before, false
	}
	e := authn.Evidence{Kind: authn.EvidenceSignIn, By: provider, Level: level, Since: now.UTC(), Claims: map[string]string{}}
	for _, name := range claims {
		if v := says[name]; v != "" && person.IsText(v, maxText) {
			e.Claims[name] = v
		}
	}
	switch {
	case level == 0:
		return before.Without(authn.EvidenceSignIn, provider), true
	case at >= 0 && before[at].Level == level && maps.Equal(before[at].Claims, e.Claims):
		return before, false
	case at < 0 && len(before) >= maxEvidence:
		return before, false
	}
	return before.With(e), true
}
