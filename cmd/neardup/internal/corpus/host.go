package corpus

import "strings"

// Host is the host of a key that is a URL: lower-case, without user, port or
// final dot; empty where the key has none. It never fails: URLs of a crawl are
// often not valid ones.
func Host(key string) string {
	scheme, rest, ok := strings.Cut(key, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return ""
	}
	if end := strings.IndexAny(rest, "/?#\\"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if strings.HasPrefix(rest, "[") { // an IPv6 address
		address, _, ok := strings.Cut(rest, "]")
		if !ok {
			return ""
		}
		return strings.ToLower(address) + "]"
	}
	rest, _, _ = strings.Cut(rest, ":")
	return strings.ToLower(strings.TrimSuffix(rest, "."))
}
