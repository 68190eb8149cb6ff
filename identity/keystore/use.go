package keystore

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/storage"
)

// UsedBy returns the users of the key pair of a name or id, in words such as "idp partner".
type UsedBy func(name string) []string

// OnUse adds a function that is asked for the users of a key pair before it is removed, in addition to the
// configuration. Those that signers returns need its private key, too. It must be called before the service is used.
func (s *Service) OnUse(users, signers UsedBy) {
	s.users, s.signers = append(s.users, users), append(s.signers, signers)
}

// checkUnused refuses with a 409 that names the users of a key pair, and returns nil when there are none.
func (s *Service) checkUnused(tx storage.Tx, id, name string) error {
	by := s.usedBy(id, name)
	places, err := s.owner.Uses(tx, id, name)
	if err != nil {
		return err
	}
	if by = append(by, places...); len(by) == 0 {
		return nil
	}
	e := conflict("the key pair is in use", coded.Errorf("key_pair_used", "places", "the key pair is in use: %s", strings.Join(by, ", ")))
	e.Details = map[string]any{"used_by": by}
	return e
}

// usedBy returns the users of a key pair outside the configuration.
func (s *Service) usedBy(id, name string) []string { return ask(s.users, id, name) }

func ask(users []UsedBy, id, name string) (by []string) {
	for _, of := range users {
		by = append(append(by, of(name)...), of(id)...)
	}
	return by
}
