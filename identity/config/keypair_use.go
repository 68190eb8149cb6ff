package config

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// UsedBy returns who uses the key pair of a name or id, in words such as "idp partner".
type UsedBy func(name string) []string

// OnUse adds somebody to ask before a key pair is removed, beside the login methods and service providers. It is called before the service is used.
func (s *Service) OnUse(ask UsedBy) { s.pairs.users = append(s.pairs.users, ask) }

// unused returns nil when nobody uses a key pair, otherwise a 409 that says who does.
func (s *Service) unused(tx storage.Tx, id, name string) error {
	u, err := s.Units(tx)
	if err != nil {
		return err
	}
	var by []string
	for _, ask := range s.pairs.users {
		by = append(append(by, ask(name)...), ask(id)...)
	}
	for at, named := range u.keyPairs() {
		if named == id || named == name {
			by = append(by, at)
		}
	}
	if len(by) == 0 {
		return nil
	}
	return &rest.Error{Status: http.StatusConflict, Message: "the key pair is in use", Details: map[string]any{"used_by": by}}
}
