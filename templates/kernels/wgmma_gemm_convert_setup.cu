        set_conversion(barriers.conversions[${index}], ${tensor}, ${tensor}_16, ${tensor}_scale, seen[${index}], ${rows}, ${columns}, attempt, pieces);
