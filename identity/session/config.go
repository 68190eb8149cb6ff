package session

import (
	"time"
)

// Config says how long a sign-in lasts.
type Config struct {
	Idle     time.Duration // without use. Default: 1 hour
	Absolute time.Duration // at the most. Default: 12 hours
	Remember time.Duration // when the person asked to stay signed in: at the most, used or not. Default: 30 days. Negative: not offered
}
