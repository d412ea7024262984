// Package config is the configuration of `muster serve`: one struct, where each
// value comes from, and the rules that hold between them.
//
// A flag wins over the environment (MUSTER_ and the flag's name in capitals,
// with _ for -), the environment over the YAML file, the file over the
// default. The table in settings.go is authoritative for names, defaults and
// help; flags, environment names, the example file and `muster config print`
// are all made from it.
//
// A key of the file that does not exist, a value of the wrong form and a
// breach of a rule are an [*Error] with one sentence for each, and nothing
// starts. Unknown MUSTER_ variables are ignored, because container platforms
// invent some for a service of that name.
package config
