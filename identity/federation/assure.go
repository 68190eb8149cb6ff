package federation

import (
	"time"

	"github.com/gatehouse-id/gatehouse/identity/assurance"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// own are details that only this service can give, whatever a provider calls its attributes.
var own = []string{"verified_claims", "identity_assurance_level"}

// assure stores the identity assurance level that a sign-in by a provider gives the person, and reports whether that
// changes anything. (docs/decisions/events.md#identity-assurance)
func (s *Service) assure(tx storage.Tx, a *Answer, m *Match, now time.Time) (bool, error) {
	says := map[string]string{}
	for _, name := range []string{"given_name", "family_name", "birthdate"} {
		says[name] = person.FirstValue(a.Identity.Details, append([]string{name}, SynchronisedDetails[name]...)...)
	}
	if _, changed := assurance.BySignIn(m.Person.Assurance, a.Provider.ID, a.Provider.Assurance, says, now); !changed {
		return false, nil
	}
	rec, err := person.Records.Get(tx, m.ID)
	if err != nil {
		return false, err
	}
	rec.Assurance, _ = assurance.BySignIn(rec.Assurance, a.Provider.ID, a.Provider.Assurance, says, now)
	m.Person.Assurance = rec.Assurance
	return true, person.Records.Put(tx, m.ID, rec, time.Time{})
}

// Disown takes back what a sign-in by a provider has shown of a person who is no longer linked with it.
func Disown(tx storage.Tx, personID, provider string) error {
	rec, found, err := person.Records.Find(tx, personID)
	if err != nil || !found {
		return err
	}
	left := rec.Assurance.Without(authn.EvidenceSignIn, provider)
	if len(left) == len(rec.Assurance) {
		return nil
	}
	rec.Assurance = left
	return person.Records.Put(tx, personID, rec, time.Time{})
}
