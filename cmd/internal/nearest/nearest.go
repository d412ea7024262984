// Package nearest finds the name that somebody probably meant. It owns the one
// rule for that, used wherever a message says "did you mean": the fewest
// changed letters, and no more than a third of the word. It cannot fail; when
// nothing is near it says nothing.
package nearest

import "strings"

// To returns the one of names that is nearest to word, or "" if none is near.
// Of equally near ones the first wins.
func To(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete, replace, or swap with
// their neighbour, to make b of a.
func distance(a, b string) int {
	two, one := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
