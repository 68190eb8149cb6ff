package importer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// autheliaReader reads Authelia's users_database.yml. (Authelia 4.39, "File" authentication backend)
type autheliaReader struct {
	left []*yaml.Node // names and users, by turns
}

func newAuthelia(r io.Reader) (*autheliaReader, error) {
	var file struct {
		Users yaml.Node `yaml:"users"`
	}
	if err := readYAML(r, &file); err != nil {
		return nil, err
	}
	if file.Users.Kind != yaml.MappingNode {
		return nil, errors.New("the file has no users: want Authelia's users_database.yml")
	}
	return &autheliaReader{file.Users.Content}, nil
}

// autheliaUser is one of its users.
type autheliaUser struct {
	DisplayName string   `yaml:"displayname"`
	Password    string   `yaml:"password"`
	Email       string   `yaml:"email"`
	Groups      []string `yaml:"groups"`
	Disabled    bool     `yaml:"disabled"`
	GivenName   string   `yaml:"given_name"`
	FamilyName  string   `yaml:"family_name"`
	Gender      string   `yaml:"gender"`
	Birthdate   string   `yaml:"birthdate"`
	Locale      string   `yaml:"locale"`
	PhoneNumber string   `yaml:"phone_number"`
	Address     struct {
		Street     string `yaml:"street_address"`
		Locality   string `yaml:"locality"`
		Region     string `yaml:"region"`
		PostalCode string `yaml:"postal_code"`
		Country    string `yaml:"country"`

		Rest map[string]any `yaml:",inline"`
	} `yaml:"address"`
	Extra map[string]any `yaml:"extra"`

	Rest map[string]any `yaml:",inline"`
}

// Next implements Reader.
func (a *autheliaReader) Next() (p Person, line int, err error) {
	if len(a.left) < 2 {
		return p, 0, io.EOF
	}
	name, node := a.left[0], a.left[1]
	a.left = a.left[2:]
	var u autheliaUser
	if err := node.Decode(&u); err != nil {
		return p, name.Line, &LineError{name.Line, notOf("Authelia", err)}
	}
	p = Person{
		Username: name.Value, Name: u.DisplayName, GivenName: u.GivenName, FamilyName: u.FamilyName, Email: u.Email,
		Groups: u.Groups, Locale: u.Locale, Inactive: u.Disabled,
	}
	switch {
	case isHash(u.Password):
		p.PasswordHash = u.Password
	case u.Password != "":
		return p, name.Line, &LineError{name.Line, "the password is not a hash that is understood"}
	}
	if u.Birthdate != "" {
		p.profile().DateOfBirth = u.Birthdate
	}
	if g := strings.ToUpper(u.Gender); g == "MALE" || g == "FEMALE" {
		p.profile().Gender = g[:1]
	} else if g != "" {
		p.profile().Gender = u.Gender // the import names it if it is another
	}
	if u.PhoneNumber != "" {
		p.profile().PhoneNumbers = []person.PhoneNumber{{Value: u.PhoneNumber, Tag: "mobile"}}
	}
	if at := u.Address; at.Street != "" || at.Locality != "" || at.PostalCode != "" || at.Region != "" || at.Country != "" {
		*p.address() = person.Address{
			StreetName: at.Street, City: at.Locality, Region: at.Region,
			PostalCode: at.PostalCode, CountryCode: at.Country,
		}
	}
	for _, k := range slices.Sorted(maps.Keys(u.Extra)) {
		p.custom(k, fmt.Sprint(u.Extra[k]))
	}
	for _, k := range slices.Sorted(maps.Keys(u.Address.Rest)) {
		p.note("address." + k + " does not come")
	}
	for _, k := range slices.Sorted(maps.Keys(u.Rest)) {
		if u.Rest[k] != nil && u.Rest[k] != "" {
			p.note(k + " does not come")
		}
	}
	return p, name.Line, nil
}
