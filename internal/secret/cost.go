package secret

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// costs are the forms of hashes with the numbers that say what a try costs, and what Verify allows of it.
var costs = []struct {
	form *regexp.Regexp
	// over returns what costs too much, or "".
	over func(n []uint64) string
}{
	{regexp.MustCompile(`^\$argon2(?:id|i|d)\$v=\d+\$m=(\d+),t=(\d+),p=(\d+)\$`), func(n []uint64) string {
		switch memory, passes := n[0], n[1]; {
		case memory > maxMemoryKiB:
			return fmt.Sprintf("takes %d MiB of memory for each try, of which %d are allowed", memory>>10, maxMemoryKiB>>10)
		case passes > maxIterations || memory*passes > maxWork:
			return fmt.Sprintf("takes %d passes over %d MiB for each try, of which %d are allowed", passes, memory>>10,
				min(maxIterations, maxWork/max(memory, 1)))
		}
		return ""
	}},
	{
		regexp.MustCompile(`^\$(?:2[aby]\$|bcrypt-sha256\$v=2,t=2[ab],r=)(\d{1,2})\$`),
		func(n []uint64) string { return beyond("the cost", n[0], maxBcryptCost) },
	},
	{
		regexp.MustCompile(`^(?:\{PBKDF2[^}]*\}|\$pbkdf2(?:-\w+)?\$(?:i=)?|pbkdf2_\w+\$)(\d+)[,$]`),
		func(n []uint64) string { return beyond("iterations:", n[0], maxPBKDF2) },
	},
	{regexp.MustCompile(`^\$[56]\$rounds=(\d+)\$`), func(n []uint64) string { return beyond("rounds:", n[0], maxSHARounds) }},
	{regexp.MustCompile(`^\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d+)\$`), func(n []uint64) string {
		if ln, r := min(n[0], 30), n[1]; r<<ln/8 > maxScryptKiB || min(n[2], 1<<16)*r<<ln > maxScryptWork {
			return fmt.Sprintf("takes %d MiB of memory %d times for each try, of which %d once are allowed", r<<ln>>13, n[2], maxScryptKiB>>10)
		}
		return ""
	}},
}

func beyond(what string, n, most uint64) string {
	if n <= most {
		return ""
	}
	return fmt.Sprintf("has %s %d, and at most %d is allowed", what, n, most)
}

// TooCostly says what of a hash costs more than Verify allows. It is empty for a hash that is accepted or refused for
// another reason.
func TooCostly(phc string) string {
	phc = unwrap(phc)
	for _, c := range costs {
		m := c.form.FindStringSubmatch(phc)
		if m == nil {
			continue
		}
		var n []uint64
		for _, digits := range m[1:] {
			v, err := strconv.ParseUint(digits, 10, 32)
			if err != nil {
				v = math.MaxUint32
			}
			n = append(n, v)
		}
		return c.over(n)
	}
	return ""
}
