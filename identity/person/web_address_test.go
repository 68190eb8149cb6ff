package person_test

import (
	"errors"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// TestDirectoryAddresses: applications make links of the claims profile and picture, so no one is stored with an
// address that a browser would run.
func TestDirectoryAddresses(t *testing.T) {
	t.Parallel()
	for at, ok := range map[string]bool{
		"https://www.example.com/ann": true, "http://www.example.com/ann": true, "": true, "javascript:alert(1)": false,
		"data:text/html,x":      false,
		"//www.example.com/ann": false, "https://ann@www.example.com/": false,
	} {
		for field, d := range map[string]person.Directory{
			"profileUrl": {ProfileURL: at}, "photos": {Plurals: map[string][]person.Plural{"photos": {{Value: at}}}},
		} {
			_, _, _, err := person.NewPerson{Username: "ann", Directory: &d}.Records()
			if refused := new(person.ValidationError); ok && err != nil || !ok && (!errors.As(err, &refused) || refused.Field != field) {
				t.Errorf("Records with %s %q = %v, want it to be taken: %t", field, at, err, ok)
			}
		}
	}
}
