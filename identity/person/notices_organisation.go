package person

import (
	"time"
)

// UnlinkedPerPerson is how often an organisation hears that a person has left one application, before the first pause: nobody fills its mailbox by
// coming and going.
const UnlinkedPerPerson = 5

// UncoupledEvery is how often at most an organisation is told of one cause at one provider.
const UncoupledEvery = 6 * time.Hour
