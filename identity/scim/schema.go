package scim

import (
	"slices"
	"strings"
)

// The schemas. (RFC 7643 4, 8.7.1)
const (
	coreUser   = "urn:ietf:params:scim:schemas:core:2.0:User"
	coreGroup  = "urn:ietf:params:scim:schemas:core:2.0:Group"
	enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	ourUser    = "urn:gatehouse:params:scim:schemas:extension:2.0:User"
	ourGroup   = "urn:gatehouse:params:scim:schemas:extension:2.0:Group"

	listMessage   = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	searchMessage = "urn:ietf:params:scim:api:messages:2.0:SearchRequest"
	patchMessage  = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	bulkRequest   = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"
	bulkResponse  = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"
	errorMessage  = "urn:ietf:params:scim:api:messages:2.0:Error"

	schemaSchema   = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	typeSchema     = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	providerSchema = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
)

// object is a JSON object whose members have the names of the schema.
type object = map[string]any

// The types of attributes. (RFC 7643 2.3)
const (
	typeString    = "string"
	typeBoolean   = "boolean"
	typeDateTime  = "dateTime"
	typeReference = "reference"
	typeBinary    = "binary"
	typeComplex   = "complex"
)

// Who can write an attribute, and when it is returned. (RFC 7643 2.2, 7) Empty: readWrite, default.
const (
	readWrite = "readWrite"
	readOnly  = "readOnly"
	immutable = "immutable"
	writeOnly = "writeOnly"

	returnedDefault = "default"
	returnedAlways  = "always"
	returnedNever   = "never"
)

// attribute is one attribute of a schema. (RFC 7643 7)
type attribute struct {
	name, description string
	kind              string // empty: string, or complex if there is sub
	multi, required   bool
	exact             bool // case matters
	mutability        string
	returned          string
	unique            string // may be empty
	canonical         []string
	references        []string
	sub               []*attribute
}

func (a *attribute) typ() string {
	switch {
	case a.kind != "":
		return a.kind
	case a.sub != nil:
		return typeComplex
	}
	return typeString
}

// find returns the sub-attribute of a name. Names are compared without regard to the case of ASCII letters. (RFC 7643
// 2.1)
func (a *attribute) find(name string) *attribute { return find(a.sub, name) }

func find(in []*attribute, name string) *attribute {
	for _, a := range in {
		if equalFold(a.name, name) {
			return a
		}
	}
	return nil
}

// equalFold compares names of attributes. Only ASCII letters have a case, so no other letter passes for one of them.
func equalFold(a, b string) bool { return len(a) == len(b) && lower(a) == lower(b) }

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// schema is the attributes of a kind of resource, or an extension of one.
type schema struct {
	id, name, description string
	attributes            []*attribute
}

// resourceType is a kind of resource. (RFC 7643 6)
type resourceType struct {
	name, endpoint, description string
	core                        *schema
	extensions                  []*schema
	root                        []*attribute // common, core, and the extensions as complex attributes by their URNs
}

func newResourceType(name, endpoint, description string, core *schema, extensions ...*schema) *resourceType {
	t := &resourceType{name: name, endpoint: endpoint, description: description, core: core, extensions: extensions}
	t.root = append(append(t.root, common...), core.attributes...)
	for _, e := range extensions {
		t.root = append(t.root, &attribute{name: e.id, description: e.description, sub: e.attributes})
	}
	return t
}

// resolve returns the attribute that a path of a filter, a PATCH or a parameter names, and its sub-attribute. A path
// may begin with the URN of the schema. (RFC 7644 3.10)
func (t *resourceType) resolve(path string) (a, sub *attribute, ok bool) {
	in := t.root
	path = t.canonical(path)
	for _, s := range append([]*schema{t.core}, t.extensions...) {
		if len(path) >= len(s.id) && equalFold(path[:len(s.id)], s.id) {
			if len(path) == len(s.id) {
				a = find(t.root, s.id) // the extension itself
				return a, nil, a != nil
			}
			if path[len(s.id)] != ':' {
				continue
			}
			path = path[len(s.id)+1:]
			if s == t.core {
				break
			}
			ext := find(t.root, s.id)
			name, rest, nested := strings.Cut(path, ".")
			if sub = ext.find(name); sub == nil || nested && sub.find(rest) == nil {
				return nil, nil, false
			}
			if nested { // an attribute of an extension that is complex itself
				return &attribute{name: ext.name + ":" + sub.name, multi: sub.multi, sub: sub.sub, mutability: sub.mutability}, sub.find(rest), true
			}
			return ext, sub, true
		}
	}
	name, rest, nested := strings.Cut(path, ".")
	if a = find(in, name); a == nil {
		return nil, nil, false
	}
	if !nested {
		return a, nil, true
	}
	sub = a.find(rest)
	return a, sub, sub != nil
}

// common are the attributes of every resource. (RFC 7643 3.1)
var common = []*attribute{
	{
		name: "schemas", description: "URNs of the schemas of the resource", kind: typeReference, multi: true, required: true,
		exact: true, returned: returnedAlways,
	},
	{name: "id", description: "What we call the resource", exact: true, mutability: readOnly, returned: returnedAlways, unique: "server"},
	{name: "externalId", description: "What the provisioning client calls the resource", exact: true},
	{name: "meta", description: "About the resource itself", mutability: readOnly, sub: []*attribute{
		{name: "resourceType", exact: true, mutability: readOnly},
		{name: "created", kind: typeDateTime, mutability: readOnly},
		{name: "lastModified", kind: typeDateTime, mutability: readOnly},
		{name: "location", kind: typeReference, exact: true, mutability: readOnly},
		{name: "version", exact: true, mutability: readOnly},
	}},
}

// plural is an attribute of several values. (RFC 7643 2.4)
func plural(name, description string, types ...string) *attribute {
	return &attribute{name: name, description: description, multi: true, sub: []*attribute{
		{name: "value", description: "The value"},
		{name: "display", description: "The value for people"},
		{name: "type", description: "What it is for", canonical: types},
		{name: "primary", description: "Whether it is the preferred one", kind: typeBoolean},
	}}
}

func withValue(a *attribute, kind string, exact bool) *attribute {
	a.sub[0].kind, a.sub[0].exact = kind, exact
	return a
}

// without leaves out a sub-attribute that Gatehouse does not keep.
func without(a *attribute, name string) *attribute {
	var kept []*attribute
	for _, s := range a.sub {
		if s.name != name {
			kept = append(kept, s)
		}
	}
	a.sub = kept
	return a
}

// userSchema is RFC 7643 4.1.
var userSchema = &schema{coreUser, "User", "A person", []*attribute{
	{name: "userName", description: "The username, unique within the partition", required: true, unique: "server", returned: returnedAlways},
	{name: "name", description: "The parts of the person's name", sub: []*attribute{
		{name: "formatted", description: "The whole name"},
		{name: "familyName", description: "The family name"},
		{name: "givenName", description: "The given name"},
		{name: "middleName", description: "The middle name"},
		{name: "honorificPrefix", description: "A title in front of the name"},
		{name: "honorificSuffix", description: "A title after the name"},
	}},
	{name: "displayName", description: "The name that is shown. Default: given and family name"},
	{name: "nickName", description: "The casual name"},
	{name: "profileUrl", description: "A page about the person", kind: typeReference, references: []string{"external"}, exact: true},
	{name: "title", description: "The title, such as Vice President"},
	{name: "userType", description: "The relation to the organisation, such as Contractor"},
	{name: "preferredLanguage", description: "The preferred language, which is the locale where that is not given"},
	{name: "locale", description: "The locale, as a BCP 47 tag"},
	{name: "timezone", description: "The time zone, as an IANA name"},
	{name: "active", description: "Whether the person can sign in. Setting it to false ends sessions and tokens at once", kind: typeBoolean},
	{name: "password", description: "The password", exact: true, mutability: writeOnly, returned: returnedNever},
	without(plural("emails", "The e-mail addresses", "work", "home", "other"), "display"),
	without(plural("phoneNumbers", "The telephone numbers", "work", "home", "mobile", "fax", "pager", "other"), "display"),
	plural("ims", "Addresses of instant messaging"),
	withValue(plural("photos", "URLs of photos", "photo", "thumbnail"), typeReference, true),
	{name: "addresses", description: "The postal addresses", multi: true, sub: []*attribute{
		{name: "formatted", description: "The whole address; taken for the street where that is not given"},
		{name: "streetAddress", description: "Street and house number"},
		{name: "locality", description: "The city"},
		{name: "region", description: "The state or region"},
		{name: "postalCode", description: "The postal code"},
		{name: "country", description: "The country, ISO 3166-1 alpha-2"},
		{name: "type", description: "What it is for", canonical: []string{"work", "home", "other"}},
		{name: "primary", description: "Whether it is the preferred one", kind: typeBoolean},
	}},
	{
		name: "groups", description: "The groups that the person is in, changed at the groups", multi: true,
		mutability: readOnly, sub: []*attribute{
			{name: "value", description: "The id of the group", exact: true, mutability: readOnly},
			{
				name: "$ref", description: "The URL of the group", kind: typeReference, references: []string{"Group"},
				exact: true, mutability: readOnly,
			},
			{name: "display", description: "The name of the group", mutability: readOnly},
			{name: "type", description: "direct", canonical: []string{"direct"}, mutability: readOnly},
		},
	},
	plural("entitlements", "What the person is entitled to"),
	plural("roles", "The roles of the person"),
	withValue(plural("x509Certificates", "Certificates of the person, DER in Base64"), typeBinary, true),
}}

// enterpriseSchema is RFC 7643 4.3.
var enterpriseSchema = &schema{enterprise, "EnterpriseUser", "A person in an organisation", []*attribute{
	{name: "employeeNumber", description: "The number by which the organisation knows the person"},
	{name: "costCenter", description: "The cost center"},
	{name: "organization", description: "The organisation"},
	{name: "division", description: "The division"},
	{name: "department", description: "The department"},
	{name: "manager", description: "The person's manager", sub: []*attribute{
		{name: "value", description: "The id of the manager", exact: true},
		{
			name: "$ref", description: "The URL of the manager", kind: typeReference, references: []string{"User"},
			exact: true, mutability: readOnly,
		},
		{name: "displayName", description: "The manager's name", mutability: readOnly},
	}},
}}

var ourUserSchema = &schema{ourUser, "GatehouseUser", "What else Gatehouse knows of a person", []*attribute{
	{
		name: "state", description: "Where the person stands", mutability: readOnly,
		canonical: []string{"INVITED", "INACTIVE", "ACTIVE", "BLOCKED"}, exact: true,
	},
	{name: "partition", description: "The partition", mutability: readOnly, exact: true},
	{name: "emailVerified", description: "Whether the primary address is known to be the person's", kind: typeBoolean, mutability: readOnly},
	{name: "initials", description: "The initials"},
	{name: "gender", description: "M, F or U", canonical: []string{"M", "F", "U"}},
	{name: "dateOfBirth", description: "The date of birth, as 2006-01-02"},
	{name: "referenceId", description: "A reference of the operator's own", exact: true},
	{name: "customAttributes", description: "Attributes of the operator's own", multi: true, sub: []*attribute{
		{name: "name", description: "The name", exact: true, required: true},
		{name: "value", description: "The value", exact: true},
	}},
}}

// writable returns a schema with an attribute that can be written, too.
func writable(s *schema, name string) *schema {
	out := *s
	out.attributes = slices.Clone(s.attributes)
	for i, a := range out.attributes {
		if a.name == name {
			can := *a
			can.mutability = readWrite
			out.attributes[i] = &can
		}
	}
	return &out
}

// groupSchema is RFC 7643 4.2.
var groupSchema = &schema{coreGroup, "Group", "A set of persons", []*attribute{
	{
		name: "displayName", description: "The name, which is unique: protect, claims and headers name the group by it", required: true,
		unique: "server", exact: true,
	},
	{name: "members", description: "The members", multi: true, sub: []*attribute{
		{name: "value", description: "The id of the member", exact: true, mutability: immutable, required: true},
		{
			name: "$ref", description: "The URL of the member", kind: typeReference, references: []string{"User"},
			exact: true, mutability: readOnly,
		},
		{name: "type", description: "User", canonical: []string{"User"}, mutability: immutable},
		{name: "display", description: "The name of the member", mutability: readOnly},
	}},
}}

var ourGroupSchema = &schema{ourGroup, "GatehouseGroup", "What else Gatehouse knows of a group", []*attribute{
	{name: "permissions", description: "What introspection tells in group_permissions", multi: true, exact: true},
}}

var (
	userType  = newResourceType("User", "/Users", "Persons", userSchema, enterpriseSchema, ourUserSchema)
	groupType = newResourceType("Group", "/Groups", "Groups of persons", groupSchema, ourGroupSchema)

	resourceTypes = []*resourceType{userType, groupType}

	// vouchedType is userType for a client that can say whether an address is the person's.
	vouchedType = newResourceType("User", "/Users", "Persons", userSchema, enterpriseSchema, writable(ourUserSchema, "emailVerified"))
)
