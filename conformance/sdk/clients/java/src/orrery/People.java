package orrery;

import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import java.util.List;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.repository.query.Param;

/** The repository of {@link SpringData}: queries derived from names, and queries in SQL. */
public interface People extends CosmosRepository<Person, String> {
  List<Person> findByCityAndAgeGreaterThanEqual(String city, int age);

  List<Person> findByNameStartsWithIgnoreCase(String prefix);

  List<Person> findByNameContaining(String part);

  List<Person> findTop2ByOrderByAgeDesc();

  Page<Person> findByAgeBetween(int least, int most, Pageable pageable);

  boolean existsByName(String name);

  long countByCity(String city);

  @Query("SELECT * FROM c WHERE c.age IN (@first, @second) ORDER BY c.age")
  List<Person> ofAges(@Param("first") int first, @Param("second") int second);

  @Query("SELECT * FROM c WHERE ARRAY_CONTAINS(c.hobbies, @hobby)")
  List<Person> withHobby(@Param("hobby") String hobby);

  @Query("SELECT VALUE SUM(c.age) FROM c")
  List<Integer> sumOfAges();

  @Query("SELECT c.city, COUNT(1) AS people FROM c GROUP BY c.city")
  List<com.fasterxml.jackson.databind.JsonNode> peopleOfCities();
}
