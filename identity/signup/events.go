package signup

import (
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// personSignedUp is the event of a person who has signed up.
var personSignedUp = audit.Type{Type: "person.PersonSignedUpEvent", Name: "Person Signed Up"}
