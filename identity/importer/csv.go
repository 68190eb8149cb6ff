package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
)

// columns are the known names of columns, compared without case, blanks, _ and -.
var columns = map[string]func(p *Person, v string) error{
	"username":     func(p *Person, v string) error { p.Username = v; return nil },
	"uid":          func(p *Person, v string) error { p.Username = v; return nil },
	"password":     func(p *Person, v string) error { p.Password = v; return nil },
	"passwordhash": func(p *Person, v string) error { p.PasswordHash = v; return nil },
	"hash":         func(p *Person, v string) error { p.PasswordHash = v; return nil },
	"name":         func(p *Person, v string) error { p.Name = v; return nil },
	"displayname":  func(p *Person, v string) error { p.Name = v; return nil },
	"givenname":    func(p *Person, v string) error { p.GivenName = v; return nil },
	"firstname":    func(p *Person, v string) error { p.GivenName = v; return nil },
	"familyname":   func(p *Person, v string) error { p.FamilyName = v; return nil },
	"lastname":     func(p *Person, v string) error { p.FamilyName = v; return nil },
	"email":        func(p *Person, v string) error { p.Email = v; return nil },
	"mail":         func(p *Person, v string) error { p.Email = v; return nil },
	"emailverified": func(p *Person, v string) error {
		b, err := yes(v)
		if err != nil {
			p.note("email_verified " + err.Error() + ": left out")
			return nil
		}
		p.EmailVerified = &b
		return nil
	},
	"groups":     func(p *Person, v string) error { p.Groups = split(v); return nil },
	"locale":     func(p *Person, v string) error { p.Locale = v; return nil },
	"language":   func(p *Person, v string) error { p.Locale = v; return nil },
	"partition":  func(p *Person, v string) error { p.Partition = v; return nil },
	"externalid": func(p *Person, v string) error { p.ExternalID = v; return nil },
	"active": func(p *Person, v string) error {
		b, err := yes(v)
		p.Inactive = !b
		return err
	},
	"initials":    func(p *Person, v string) error { p.profile().Name.Initials = v; return nil },
	"gender":      func(p *Person, v string) error { p.profile().Gender = strings.ToUpper(v); return nil },
	"dateofbirth": func(p *Person, v string) error { p.profile().DateOfBirth = v; return nil },
	"birthdate":   func(p *Person, v string) error { p.profile().DateOfBirth = v; return nil },
	"referenceid": func(p *Person, v string) error { p.profile().ReferenceID = v; return nil },
	"phone":       addPhone("work"),
	"phonenumber": addPhone("work"),
	"mobile":      addPhone("mobile"),
	"street":      func(p *Person, v string) error { p.address().StreetName = v; return nil },
	"housenumber": func(p *Person, v string) error {
		if n, err := strconv.Atoi(v); err == nil {
			p.address().HouseNumber = n
		} else {
			p.address().HouseNumberAddition = v // such as 12a
		}
		return nil
	},
	"city":       func(p *Person, v string) error { p.address().City = v; return nil },
	"postalcode": func(p *Person, v string) error { p.address().PostalCode = v; return nil },
	"region":     func(p *Person, v string) error { p.address().Region = v; return nil },
	"country":    func(p *Person, v string) error { p.address().CountryCode = v; return nil },
}

func addPhone(tag string) func(p *Person, v string) error {
	return func(p *Person, v string) error {
		prof := p.profile()
		prof.PhoneNumbers = append(prof.PhoneNumbers, person.PhoneNumber{Value: v, Tag: tag})
		return nil
	}
}

// customPrefix begins the names of columns that hold custom attributes: custom.shoe_size.
const customPrefix = "custom."

func yes(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "y", "1":
		return true, nil
	case "false", "no", "n", "0":
		return false, nil
	}
	return false, errors.New("wants true or false")
}

// split returns the values of a column that holds several. Commas separate them where nothing else does.
func split(v string) (out []string) {
	between := ";|"
	if !strings.ContainsAny(v, between) {
		between = ","
	}
	for _, one := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(between, r) }) {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// csvReader reads RFC 4180, with the names of the columns on the first line.
type csvReader struct {
	in     *csv.Reader
	size   *boundedReader
	header []string
}

func newCSV(r io.Reader) (*csvReader, error) {
	size := &boundedReader{r: r, left: maxRecord}
	c := &csvReader{in: csv.NewReader(size), size: size}
	header, err := c.in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: the first line names the columns")
	}
	if err != nil {
		return nil, csvError(err)
	}
	if len(header) == 1 && strings.Contains(header[0], ";") { // as spreadsheets write it in countries with decimal commas
		return nil, errors.New("the first line separates its columns by ; instead of commas: save the file as CSV with commas")
	}
	seen := map[string]bool{}
	for i, name := range header {
		name = strings.TrimSpace(name)
		if custom, ok := strings.CutPrefix(strings.ToLower(name), customPrefix); ok && custom != "" {
			name = customPrefix + name[len(customPrefix):]
		} else {
			name = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
			if columns[name] == nil {
				return nil, fmt.Errorf("column %d of the first line is not known; known are %s, and %sNAME for attributes of your own", i+1,
					strings.Join(slices.Sorted(maps.Keys(columns)), ", "), customPrefix)
			}
		}
		if seen[name] {
			return nil, fmt.Errorf("the column %s is there twice", name)
		}
		seen[name] = true
		header[i] = name
	}
	if !seen["username"] && !seen["uid"] {
		return nil, errors.New("the first line names no column username")
	}
	c.header = slices.Clone(header)
	c.in.FieldsPerRecord = len(header)
	c.in.ReuseRecord = true
	return c, nil
}

// Next implements Reader.
func (c *csvReader) Next() (p Person, line int, err error) {
	c.size.left = maxRecord
	row, err := c.in.Read()
	if wrong := new(csv.ParseError); errors.As(err, &wrong) && errors.Is(err, csv.ErrFieldCount) {
		return p, wrong.StartLine, &LineError{wrong.StartLine, fmt.Sprintf("has %d columns, the first line has %d", len(row), len(c.header))}
	}
	if err != nil {
		return p, 0, csvError(err)
	}
	line, _ = c.in.FieldPos(0)
	for i, v := range row {
		name := c.header[i]
		if v == "" {
			continue
		}
		if custom, ok := strings.CutPrefix(name, customPrefix); ok {
			prof := p.profile()
			prof.CustomAttributes = append(prof.CustomAttributes, person.CustomAttribute{Name: custom, Value: v})
			continue
		}
		if err := columns[name](&p, v); err != nil {
			return p, line, &LineError{line, name + " " + err.Error()}
		}
	}
	if p.Password != "" && p.PasswordHash == "" && isHash(p.Password) {
		return p, line, &LineError{line, "password holds a hash: name the column password_hash"}
	}
	return p, line, nil
}

// csvError keeps the place that the reader names, and no value.
func csvError(err error) error {
	if wrong := new(csv.ParseError); errors.As(err, &wrong) {
		return fmt.Errorf("line %d, column %d: %w", wrong.Line, wrong.Column, wrong.Err)
	}
	return err
}

// boundedReader ends a record whose quotation marks do not close, before it fills the memory.
type boundedReader struct {
	r    io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}
