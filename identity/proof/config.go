package proof

import (
	"time"
)

// Config says when failed sign-ins are slowed down.
type Config struct {
	Failures int           // of one person from one address. Default: 5
	Window   time.Duration // in which they count. Default: 15 minutes
}
