package authn

import (
	"errors"
	"regexp"
)

var partitionForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// CheckPartition reports whether a partition of persons can have the name.
func CheckPartition(name string) error {
	if !partitionForm.MatchString(name) {
		return errors.New("is not a name of 1 to 64 lower-case letters, digits and . _ -, the first of them a letter or digit")
	}
	return nil
}
