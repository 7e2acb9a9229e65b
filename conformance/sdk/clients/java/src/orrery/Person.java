package orrery;

import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.mapping.PartitionKey;
import java.util.List;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;

/** An entity of {@link SpringData}. */
@Container(containerName = "people", autoCreateContainer = true, ru = "12000")
public class Person {
  @Id
  private String id;

  @PartitionKey
  private String city;

  private String name;
  private int age;
  private List<String> hobbies;

  @Version
  private String etag;

  public Person() {}

  Person(String id, String city, String name, int age, List<String> hobbies) {
    this.id = id;
    this.city = city;
    this.name = name;
    this.age = age;
    this.hobbies = hobbies;
  }

  public String getId() {
    return id;
  }

  public void setId(String id) {
    this.id = id;
  }

  public String getCity() {
    return city;
  }

  public void setCity(String city) {
    this.city = city;
  }

  public String getName() {
    return name;
  }

  public void setName(String name) {
    this.name = name;
  }

  public int getAge() {
    return age;
  }

  public void setAge(int age) {
    this.age = age;
  }

  public List<String> getHobbies() {
    return hobbies;
  }

  public void setHobbies(List<String> hobbies) {
    this.hobbies = hobbies;
  }

  public String getEtag() {
    return etag;
  }

  public void setEtag(String etag) {
    this.etag = etag;
  }
}
