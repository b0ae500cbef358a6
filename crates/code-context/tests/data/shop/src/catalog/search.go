package catalog

// Search finds products whose title holds every word.
func Search(products []Product, words []string) []Product {
	var found []Product
	for _, product := range products {
		if product.matches(words) {
			found = append(found, product)
		}
	}
	return found
}
