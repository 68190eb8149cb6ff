package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

// KeyPairRequest is a step with the keys of a pair.
type KeyPairRequest struct {
	KeyPair string        `json:"key_pair"` // name or id. "" is Gatehouse's own
	Step    keystore.Step `json:"step"`     // announce, switch, retire or renew
}

func adminListKeyPairs(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	return i.Config.KeyPairs().Rotations(r.Context())
}

func adminRotateKeyPair(i *Instance, r *http.Request, in KeyPairRequest) (any, error) {
	switch in.Step {
	case keystore.Announce, keystore.Switch, keystore.Retire, keystore.Renew:
	default:
		return nil, badRequestf("a step is announce, switch, retire or renew")
	}
	id, err := i.keyPairID(r, in.KeyPair)
	if err != nil {
		return nil, err
	}
	if err := i.Config.KeyPairs().Rotate(r.Context(), id, in.Step, caller(r)); err != nil {
		return nil, keystore.Refusal(err)
	}
	return i.Config.KeyPairs().Rotation(r.Context(), id)
}

// keyPairID returns the id of the key pair of a name or id. "" is Gatehouse's own, which may not be made yet.
func (i *Instance) keyPairID(r contextual, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	list, err := i.Config.KeyPairs().Rotations(r.Context())
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range list {
		if p.ID == keystore.OwnID {
			continue
		}
		if p.Name == name || p.ID == name {
			return p.ID, nil
		}
		names = append(names, p.Name)
	}
	if name == keystore.OwnID {
		return "", nil
	}
	return "", &unknownError{"key pair", name, closest(name, names), errUnknownItem}
}
