package importer

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"

	yaml "go.yaml.in/yaml/v3"
)

// dexReader reads the static passwords of Dex's configuration. (Dex 2.43, "Authentication through the local connector")
type dexReader struct{ left []*yaml.Node }

func newDex(r io.Reader) (*dexReader, error) {
	var file struct {
		Issuer    string    `yaml:"issuer"`
		Passwords yaml.Node `yaml:"staticPasswords"`
	}
	if err := readYAML(r, &file); err != nil {
		return nil, err
	}
	if file.Issuer == "" || file.Passwords.Kind != 0 && file.Passwords.Kind != yaml.SequenceNode {
		return nil, errors.New("the file is not Dex's configuration: it has an issuer, and may have staticPasswords")
	}
	return &dexReader{file.Passwords.Content}, nil
}

// dexPassword is one of the static passwords.
type dexPassword struct {
	Email       string   `yaml:"email"`
	Hash        string   `yaml:"hash"`
	HashFromEnv string   `yaml:"hashFromEnv"`
	Username    string   `yaml:"username"`
	Preferred   string   `yaml:"preferredUsername"`
	Name        string   `yaml:"name"`
	Verified    *bool    `yaml:"emailVerified"`
	UserID      string   `yaml:"userID"`
	Groups      []string `yaml:"groups"`

	Rest map[string]any `yaml:",inline"`
}

// Next implements Reader. People sign in at Dex by their address, so is the username. Dex makes sub of userID and its
// own name for the connector, so applications see a new sub in any case.
func (d *dexReader) Next() (p Person, line int, err error) {
	if len(d.left) == 0 {
		return p, 0, io.EOF
	}
	node := d.left[0]
	d.left = d.left[1:]
	var u dexPassword
	if err := node.Decode(&u); err != nil {
		return p, node.Line, &LineError{node.Line, notOf("Dex", err)}
	}
	verified := u.Verified == nil || *u.Verified // as Dex says
	p = Person{Username: u.Email, Email: u.Email, EmailVerified: &verified, Name: u.Name, ExternalID: u.UserID, Groups: u.Groups}
	if p.Name == "" {
		p.Name = u.Username
	}
	switch {
	case u.HashFromEnv != "":
		p.note("the password does not come: its hash is in an environment variable of Dex")
	case isHash(u.Hash):
		p.PasswordHash = u.Hash
	default:
		return p, node.Line, &LineError{
			node.Line,
			"the hash is not one of bcrypt in plain text: the configuration has them so, Dex's storage has them in Base64",
		}
	}
	if u.UserID != "" {
		p.note("the sub of applications does not come: Dex makes it of userID and the connector; userID becomes the external_id")
	}
	for _, other := range []string{u.Preferred, u.Username} {
		if other != "" && other != p.Name && other != u.Email {
			p.note("the username " + strconv.Quote(other) + " does not come: people sign in by their address, as at Dex")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(u.Rest)) {
		p.note(k + " does not come")
	}
	return p, node.Line, nil
}
